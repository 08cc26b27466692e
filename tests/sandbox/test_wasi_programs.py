"""What people write runs on the WebAssembly backend as far as it says, and the shared cases of group E hold."""

from __future__ import annotations

import asyncio
import textwrap
import time
from pathlib import Path

import pytest

from devassist.core.scope import Scope
from devassist.ports.sandbox import Program
from devassist.sandbox.wasi import WasiSandbox
from tests.sandbox.test_cases_e import CASES
from tests.sandbox.wasi_kit import opened, run

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROGRAMS = {
    "numbers and text": """
        import collections, decimal, fractions, json, re, statistics, unicodedata
        print(json.dumps({"a": str(decimal.Decimal("0.1") * 3), "b": str(fractions.Fraction(1, 3))}))
        print(statistics.mean([1, 2, 6]), re.findall(r"\\d+", "a1b22"), unicodedata.name("短"))
        print(collections.Counter("hello").most_common(1), "中文".encode("gbk").decode("gbk"))
    """,
    "tables and documents": """
        import csv, hashlib, io, sqlite3, xml.etree.ElementTree as tree, zipfile, zlib
        db = sqlite3.connect(":memory:")
        db.execute("create table t (x)")
        db.executemany("insert into t values (?)", [(1,), (2,)])
        print(db.execute("select sum(x) from t").fetchone(), list(csv.reader(io.StringIO("a,b"))))
        zipfile.ZipFile(io.BytesIO(), "w").writestr("a", zlib.compress(b"x" * 100))
        print(hashlib.sha256(b"x").hexdigest()[:8], tree.fromstring("<a><b/></a>")[0].tag)
    """,
    "classes and their tests": """
        import dataclasses, enum, typing, unittest
        from unittest import mock
        @dataclasses.dataclass(order=True)
        class Point:
            x: int
            y: int = 0
        class Case(unittest.TestCase):
            def test_order(self):
                self.assertLess(Point(1), Point(1, 2))
                self.assertEqual(typing.get_type_hints(Point), {"x": int, "y": int})
        unittest.main(exit=False, argv=["x"], testRunner=unittest.TextTestRunner(stream=__import__("sys").stdout))
    """,
    "asyncio": """
        import asyncio
        async def double(number):
            await asyncio.sleep(0.01)
            return 2 * number
        async def main():
            queue = asyncio.Queue()
            async with asyncio.TaskGroup() as group:
                group.create_task(queue.put(1))
                got = group.create_task(queue.get())
            try:
                async with asyncio.timeout(0.05):
                    await asyncio.Event().wait()
            except TimeoutError:
                print("late", await asyncio.gather(*map(double, range(3))), got.result())
        asyncio.run(main())
    """,
    "recursion": """
        import functools
        @functools.cache
        def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
        print(fib(300))
        def deep(n): return n and deep(n - 1)
        try:
            deep(10 ** 6)
        except RecursionError as error:
            print(error)
    """,
    "the end of a program": """
        import atexit, sys
        atexit.register(print, "at the end")
        print(sys.argv, __file__, len(open.__doc__) > 10)
        exit()
    """,
    "very many lines": "for number in range(20_000): print(number)",
}


@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS.keys())
async def test_useful_programs_run(wasi: WasiSandbox, code: str) -> None:
    """Each ends well and says something; nothing complains."""
    done = await run(wasi, textwrap.dedent(code))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.parametrize(
    ("code", "last"),
    [
        ("import numpy", "ModuleNotFoundError: No module named 'numpy'"),
        ("open('/tmp/x', 'w')", "FileNotFoundError: "),
        ("import threading; threading.Thread(target=print).start()", "RuntimeError: can't start new thread"),
        ("import subprocess; subprocess.run(['ls'])", "OSError: "),
        ("import socket; socket.socket()", "PermissionError: "),
        ("import socket; socket.getaddrinfo('localhost', 80)", "socket.gaierror: "),
    ],
)
async def test_what_it_cannot_do_fails_as_python_fails(wasi: WasiSandbox, code: str, last: str) -> None:
    """By an exception that says what is missing, and at once."""
    done = await run(wasi, code)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith(last)


@pytest.mark.parametrize(
    ("code", "exit_code", "stderr"),
    [
        ("import os; os._exit(7)", 7, ""),
        ("import os; print('x', end=''); os._exit(0)", 0, ""),
        ("import os; os.abort()", -6, "The interpreter crashed: wasm `unreachable` instruction executed\n"),
    ],
)
async def test_abrupt_ends(wasi: WasiSandbox, code: str, exit_code: int, stderr: str) -> None:
    """An exit code is kept, a crash is one of the interpreter's, with the signal it would be elsewhere."""
    done = await run(wasi, code)
    assert (done.exit_code, done.stderr) == (exit_code, stderr)


async def test_lines_before_an_endless_loop_are_shown(wasi: WasiSandbox) -> None:
    """Although nobody flushed them."""
    done = await run(wasi, "print('first')\nprint('second')\nwhile True: pass", 1)
    assert (done.timed_out, done.stdout) == (True, "first\nsecond\n")


async def test_the_limit_of_memory_is_exact(wasi_cache: Path) -> None:
    """Of 64 MiB the interpreter takes some; what would go beyond is refused, and said to be for memory."""
    async with opened(wasi_cache, memory=64 << 20) as sandbox:
        assert (await run(sandbox, "print(len(bytearray(24 << 20)))")).exit_code == 0
        done = await run(sandbox, "bytearray(40 << 20)")
        assert (done.oom_killed, done.exit_code) == (True, 1)
        assert done.stderr.endswith("MemoryError\n")
        assert "memory=64MiB" in done.limits
        assert sandbox.counts.oom == 1


async def test_a_parser_that_gives_up_is_not_out_of_memory(wasi: WasiSandbox) -> None:
    """Python calls it a MemoryError, too."""
    done = await run(wasi, "eval('-' * 100_000 + '1')")
    assert "MemoryError" in done.stderr
    assert not done.oom_killed


async def test_e07_harmless_code_runs(wasi: WasiSandbox) -> None:
    """E07: what only looks dangerous prints what it should."""
    assert (await run(wasi, CASES["E07"]["input"])).stdout == CASES["E07"]["expected"]["accept"][0]["stdout"]


async def test_e09_a_timeout_kills_within(wasi: WasiSandbox) -> None:
    """E09: in time, and with what was printed."""
    begun = time.monotonic()
    done = await run(wasi, CASES["E09"]["input"], CASES["E09"]["context"]["timeout_s"])
    assert time.monotonic() - begun < 2 + 5
    assert (done.timed_out, done.stdout) == (True, "start\n")


async def test_e11_a_flood_is_cut_in_the_middle(wasi: WasiSandbox) -> None:
    """E11: both ends, and the number between them."""
    done = await run(wasi, CASES["E11"]["input"], 60)
    between = 5 + 5000 * 10_001 + 5 - 20_000
    assert (done.exit_code, done.truncated) == (0, True)
    assert done.stdout.startswith("HEAD\nxxx")
    assert done.stdout.endswith("xxx\nTAIL\n")
    assert f"… {between} characters omitted …" in done.stdout


async def test_e13_nothing_survives(wasi: WasiSandbox) -> None:
    """E13: neither files nor secrets are there for the next program."""
    reads = (
        "import os\nprint([os.path.exists(path) for path in ('/tmp/m.txt', 'm.txt')], len(os.environ))\n"
        "try: print(open('/proc/1/environ').read())\nexcept OSError as error: print(type(error).__name__)"
    )
    assert (await run(wasi, "open('/tmp/m.txt', 'w').write('secret-A')")).exit_code == 1
    done = await wasi.execute(Scope("default", "mallory"), Program(reads, 30))
    assert done.stdout == "[False, False] 0\nFileNotFoundError\n"


async def test_e15_no_host_paths(wasi: WasiSandbox) -> None:
    """E15: neither an engine's socket nor anything of the host is to be seen."""
    assert (await run(wasi, CASES["E15"]["input"])).stdout == "[]\n"


async def test_e16_twenty_that_eat_memory(wasi: WasiSandbox) -> None:
    """E16: each is reported as what it is, and the next program runs."""
    done = await asyncio.gather(*(run(wasi, CASES["E16"]["input"]) for _ in range(20)))
    assert [(one.oom_killed, one.timed_out) for one in done] == [(True, False)] * 20
    assert (await run(wasi, "print(1)")).stdout == "1\n"


async def test_e17_a_file_name_in_the_code_names_nothing(wasi: WasiSandbox, wasi_cache: Path) -> None:
    """E17: it is a comment, and no path is made of it."""
    before = sorted(wasi_cache.rglob("*"))
    done = await run(wasi, "# filename: ../../outside/x.py\n" + CASES["E17"]["input"])
    assert done.stdout == "ok\n"
    assert sorted(wasi_cache.rglob("*")) == before
