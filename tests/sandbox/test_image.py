"""Making the image: what it needs is said before anything is begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from devassist.core.errors import SandboxUnavailable
from devassist.sandbox.docker import SOCKET
from devassist.sandbox.engine import Engine
from devassist.sandbox.image import build


async def test_without_debootstrap_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its package, the other way to an image, and nothing left behind."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match=r"debootstrap \(apt-get .*SANDBOX_IMAGE"):
        await build(Engine(SOCKET), tmp_path / "cache", print, again=True)
    assert not (tmp_path / "cache").exists()
