"""What the sandbox's benchmark stands beside: other clients of the same engine, installed into a scratch directory.

Nothing of theirs becomes part of this repository or its environment. They need an image with ``python`` and a command
that stays, so one is made of the sandbox's own and removed at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import sleep

from bench.child import ROOT, Failed

HOME = Path("/tmp/devassist-sandbox-peers")
PACKAGES = {"docker-py": "docker", "llm-sandbox": "llm-sandbox[docker]", "autogen": "autogen-ext[docker]"}
IMAGE = "devassist-sandbox-peers:bench"
_INSTALL_S = 600
_ANSWER_S = 120


def installed(home: Path, wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """Which of the wanted peers can run, and why the others cannot."""
    python, there, notes = home / "bin/python", list[str](), list[str]()
    if not python.exists():
        print(f"Installing peers into {home}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, timeout=_INSTALL_S)
    for name in wanted:
        command = [str(python), "-m", "pip", "install", "--quiet", PACKAGES[name]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
            notes.append(f"{name} was left out, it could not be installed: {last[:200]}")
        else:
            there.append(name)
    return there, notes


@contextmanager
def image(base: str) -> Generator[str]:
    """An image for peers. Raises Failed."""
    recipe = f'FROM {base}\nRUN ln -sf python3 /usr/bin/python\nCMD ["sleep", "infinity"]\n'
    command = ["docker", "build", "--quiet", "--tag", IMAGE, "-"]
    done = subprocess.run(command, input=recipe, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise Failed(f"no image for the peers: {done.stderr.strip()[-300:]}")
    try:
        yield IMAGE
    finally:
        _remove(done.stdout.strip())


def _remove(image: str) -> None:
    """Some peers' containers go a moment after they were given up, and an image that is in use stays."""
    for _ in range(20):
        if subprocess.run(["docker", "rmi", image], capture_output=True, timeout=60, check=False).returncode == 0:
            return
        sleep(0.5)
    print(f"The image {image} is left", file=sys.stderr)


class Peer:
    """A peer in a process of its own. Ended with the ``with`` block."""

    def __init__(self, home: Path, name: str, image: str) -> None:
        self.name = name
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {"SANDBOX_BENCH_IMAGE": image}
        self._process = subprocess.Popen(
            [str(home / "bin/python"), str(ROOT / "bench/sandbox_peer.py"), name], cwd=home, env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def ask(self, verb: str, *args: str) -> dict[str, float]:
        """Its answer. Blocking. Raises Failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(_ANSWER_S, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps([verb, *args]) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        finally:
            watchdog.cancel()
        if not line:
            said = self._process.stderr.read() if self._process.stderr else ""
            raise Failed(f"{self.name} ended: {said.strip()[-300:]}")
        return json.loads(line)
