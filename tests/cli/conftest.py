"""Every test works in a directory of its own, and where no server of somebody else listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import free_port


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean_environment: None) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVASSIST_PORT", str(free_port()))
    return tmp_path
