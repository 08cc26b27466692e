"""The sandbox is opened beside the serving: a start waits neither for it nor because of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from devassist.api.app import create_app
from devassist.bootstrap import open_services
from devassist.config import load
from devassist.core.errors import SandboxUnavailable
from devassist.runtime.services import Services
from devassist.sandbox.choice import ChosenSandbox
from tests.api.kit import WAIT_S, lifespan
from tests.runtime.world import until


class Opening(ChosenSandbox):
    """One whose opening takes for ever, or fails."""

    def __init__(self, fault: Exception | None = None) -> None:
        super().__init__([])
        self.events: list[str] = []
        self._why = fault

    async def open(self) -> None:
        self.events.append("opening")
        if self._why is not None:
            raise self._why
        try:
            await asyncio.Event().wait()
        finally:
            self.events.append("given up")


@asynccontextmanager
async def started(data: Path, sandbox: Opening, **flags: str) -> AsyncGenerator[None]:
    """The application with its lifespan; it is up."""
    settings = load({"data_dir": str(data / "data"), **flags}, {})

    async def opener() -> Services:
        return replace(await open_services(settings, drive=True), sandbox=sandbox)

    async with lifespan(create_app(settings, opener)):
        yield


async def test_a_start_does_not_wait_for_the_sandbox(tmp_path: Path) -> None:
    """It is up while the sandbox is still being opened, which ends with the service."""
    sandbox = Opening()
    async with started(tmp_path, sandbox):
        await until(lambda: sandbox.events, WAIT_S)
        assert sandbox.events == ["opening"]
    assert sandbox.events == ["opening", "given up"]


@pytest.mark.parametrize(
    ("fault", "said", "traced"),
    [
        (SandboxUnavailable("no engine"), "No program can be run now: no engine", False),
        (OSError("disk full"), "No program can be run now", True),
    ],
)
async def test_a_sandbox_that_cannot_be_opened_is_no_reason_not_to_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Exception, said: str, traced: bool
) -> None:
    """One line in the log says so, with a traceback where nobody expected the fault."""
    with caplog.at_level(logging.WARNING, "devassist.api.app"):
        async with started(tmp_path, Opening(fault)):
            await until(lambda: caplog.records, WAIT_S)
    assert [(r.getMessage(), r.exc_info is not None) for r in caplog.records] == [(said, traced)]


async def test_who_wants_none_ready_gets_none_opened(tmp_path: Path) -> None:
    """SANDBOX_POOL_SIZE=0: the first program does it."""
    sandbox = Opening()
    async with started(tmp_path, sandbox, sandbox_pool_size="0"):
        for _ in range(10):  # a task would have begun by now
            await asyncio.sleep(0)
    assert sandbox.events == []
