"""The WebAssembly backend conforms to the port, and no abuse case gets through."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devassist.core.errors import ConfigInvalid
from devassist.sandbox.abuse import Verdict, check
from devassist.sandbox.wasi import WasiSandbox
from devassist.testing.sandbox_suite import SandboxSuite
from tests.sandbox.wasi_kit import opened

pytestmark = pytest.mark.asyncio(loop_scope="session")


class TestWasi(SandboxSuite):
    @pytest.fixture
    def sandbox(self, wasi: WasiSandbox) -> WasiSandbox:
        return wasi

    @pytest.fixture
    def narrow(self, wasi_narrow: WasiSandbox) -> WasiSandbox:
        return wasi_narrow

    @pytest_asyncio.fixture(loop_scope="session")
    async def closed(self, wasi_cache: Path) -> AsyncIterator[WasiSandbox]:
        async with opened(wasi_cache) as sandbox:
            yield sandbox


async def test_no_abuse_gets_through(wasi: WasiSandbox) -> None:
    """All 55 are held, or what they try does not exist here; afterwards it works."""
    verdicts: list[Verdict] = [verdict async for verdict in check(wasi)]
    assert [verdict.abuse.number for verdict in verdicts] == list(range(1, 56))
    assert [(one.abuse.name, one.detail) for one in verdicts if one.verdict == "hole"] == []
    assert sum(one.verdict == "held" for one in verdicts) >= 25


async def test_what_it_cannot_do_is_said(wasi: WasiSandbox) -> None:
    """In both languages, and with what is ready, in what, and under which limits."""
    state = wasi.state()
    assert all(" / " in line for line in state.cannot)
    assert all(word in " ".join(state.cannot) for word in ("numpy", "files", "threads", "sockets", "文件", "线程"))
    assert state.image.startswith("cpython-3.")
    assert " sha256:" in state.image
    assert state.limits.startswith("memory=128MiB output=256MiB network=none")
    assert state.warm >= 1


async def test_too_little_memory_is_refused(tmp_path: Path) -> None:
    """The interpreter alone takes more."""
    with pytest.raises(ConfigInvalid, match="48m or more"):
        WasiSandbox(tmp_path, 32 << 20)
