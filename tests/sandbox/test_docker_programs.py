"""What people write runs: the filter and the limits are in nobody's way who means no harm."""

from __future__ import annotations

import textwrap

import pytest

from devassist.sandbox.docker import DockerSandbox
from tests.sandbox.docker_kit import run

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROGRAMS = {
    "numpy": """
        import numpy as np
        a = np.arange(12.0).reshape(3, 4)
        print(round(float(np.linalg.norm(a @ a.T)), 3), np.random.default_rng(1).integers(0, 9))
    """,
    "pandas": """
        import pandas as pd
        print(pd.DataFrame({"a": [1, 2, 2], "b": [3, 4, 5]}).groupby("a").b.sum().to_dict())
    """,
    "requests is there": "import requests; print(requests.models.PreparedRequest.__name__)",
    "pytest": """
        import pathlib, pytest
        pathlib.Path("/tmp/test_x.py").write_text("def test_x(tmp_path):\\n    assert 1 + 1 == 2\\n")
        raise SystemExit(pytest.main(["-q", "/tmp/test_x.py"]))
    """,
    "files": """
        import csv, pathlib, shutil, sqlite3, tempfile, zipfile
        with tempfile.TemporaryDirectory() as folder:
            one, two = pathlib.Path(folder, "a.csv"), pathlib.Path(folder, "b.csv")
            csv.writer(one.open("w")).writerow([1, 2])
            shutil.copy2(one, two)
            shutil.copytree(folder, folder + "x")
            zipfile.ZipFile(folder + "/c.zip", "w").write(two)
            db = sqlite3.connect(folder + "/d.db")
            db.execute("create table t (x)")
            db.commit()
        print(sorted(p.name for p in pathlib.Path("/code").iterdir()))
    """,
    "processes": """
        import os, signal, subprocess, sys
        out = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True)
        sleeper = subprocess.Popen(["sleep", "60"])
        sleeper.terminate()
        print(out.stdout.strip(), sleeper.wait() == -signal.SIGTERM, os.system("true"))
    """,
    "threads and asyncio": """
        import asyncio, concurrent.futures, threading, time
        async def main():
            server = await asyncio.start_server(lambda r, w: (w.write(b"hi"), w.close()), "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            process = await asyncio.create_subprocess_exec("echo", "x", stdout=asyncio.subprocess.PIPE)
            print(await reader.read(), (await process.communicate())[0])
            writer.close()
            server.close()
        asyncio.run(main())
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            print(sum(pool.map(abs, range(-3, 3))))
        threading.Thread(target=lambda: (time.sleep(0.1), print("late"))).start()
    """,
    "children of multiprocessing": """
        import multiprocessing
        child = multiprocessing.Process(target=print, args=("from a child",))
        child.start()
        child.join()
        raise SystemExit(child.exitcode)
    """,
    "the end of a program": """
        import atexit, signal, sys, typing, dataclasses
        atexit.register(print, "at the end")
        @dataclasses.dataclass
        class A:
            x: "int"
        print(typing.get_type_hints(A), sys.argv, __file__, signal.getsignal(signal.SIGINT).__name__)
    """,
    "the clock, the zone, the locale": """
        import datetime, locale, sys, time, zoneinfo
        day = datetime.datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo("Asia/Shanghai"))
        print(day.isoformat(), sys.stdout.encoding, abs(time.time() - time.time()) < 1)
    """,
}


@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS.keys())
async def test_useful_programs_run(docker: DockerSandbox, code: str) -> None:
    """Each ends well and says something; nothing complains."""
    done = await run(docker, textwrap.dedent(code), 30)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout
