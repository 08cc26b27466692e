"""A place where processes come from."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket on which processes are to be had; see ``tests.crash.nursery``."""
    path = tmp_path_factory.mktemp("n") / "s"
    command = [sys.executable, "-m", "tests.crash.nursery", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as made:
        assert made.stdout is not None
        assert made.stdout.readline() == b"ready\n"
        yield path
        assert made.stdin is not None
        made.stdin.close()
