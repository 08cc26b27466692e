"""What the peers' benchmark stands on: their files, their virtual environments and PostgreSQL, their stub.

Nothing of theirs is part of this repository: the files are found beside it, and all that they install and write goes
into a scratch directory (``PEERS_HOME`` of their scripts).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep

from bench.child import ROOT, Failed

BESIDE = ROOT.parent / "shared" / "peers"
HOME = Path("/tmp/devassist-peers")
_VENVS = ("v_base", "v_dbos", "v_lg")
_POSTGRES = ("127.0.0.1", 55432)
_SETUP_WITHIN_S = 1200


def found(given: Path | None) -> Path:
    """The peers' directory: the given one, that of PEERS_DIR, or the one beside this repository. Raises Failed."""
    place = given or Path(os.environ.get("PEERS_DIR", BESIDE))
    if not (place / "harness.py").is_file():
        raise Failed(f"no peers in {place}: give the directory that holds their harness.py with --peers or PEERS_DIR")
    return place.absolute()


def environment(peers: Path, home: Path, work: Path, stub: str) -> dict[str, str]:
    """For every process of a contestant. Their directory stays as it is: no bytecode is written into it."""
    return {
        **os.environ, "PEERS_HOME": str(home), "WORK": str(work), "STUB": stub, "PYTHONDONTWRITEBYTECODE": "1",
        "DO_NOT_TRACK": "1", "PYTHONPATH": os.pathsep.join(filter(None, (str(peers), os.environ.get("PYTHONPATH")))),
    }  # fmt: skip


@contextmanager
def installed(peers: Path, home: Path, tell: list[str]) -> Generator[None]:
    """Their virtual environments, made by their ``setup.sh`` if need be, and their PostgreSQL, ended if this started
    it. What could not be had is told; ``runnable`` then leaves it out."""
    started = False
    if not _listens() or not all((home / venv / "bin/python").exists() for venv in _VENVS):
        began = perf_counter()
        print(f"Setting up the peers in {home}: packages to install at the first time", file=sys.stderr, flush=True)
        done = subprocess.run(
            [str(peers / "setup.sh")], env={**os.environ, "PEERS_HOME": str(home)}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=_SETUP_WITHIN_S, check=False,
        )  # fmt: skip
        started = _listens()
        if done.returncode:
            tell.append(f"the peers' setup.sh ended with {done.returncode}: {done.stderr.strip()[-200:]}")
        print(f"  took {perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if started:
            _end_postgres(home)


def runnable(home: Path, venv: str, store: str) -> bool:
    return (home / venv / "bin/python").exists() and (store != "pg" or _listens())


def _listens() -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(_POSTGRES) == 0


def _end_postgres(home: Path) -> None:
    ends = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if ends:
        command = ["runuser", "-u", "postgres", "--", str(ends[-1]), "-D", str(home / "pg/data"), "-m", "fast", "stop"]
        subprocess.run(command, cwd="/", capture_output=True, timeout=60, check=False)


@contextmanager
def stub_running(peers: Path) -> Generator[str]:
    """Their stub in a process of its own; its address. Raises Failed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen([sys.executable, "stub.py", "--port", str(port)], cwd=peers, env=env)
    address = f"http://127.0.0.1:{port}"
    try:
        _answered(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def _answered(address: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{address}/stats", timeout=5) as answer:
                json.load(answer)
            return
        except OSError:
            sleep(0.05)
    raise Failed("the peers' stub did not come up")
