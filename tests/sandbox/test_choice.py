"""The choice of a backend while it is being opened: callers are told, and nobody waits without a word."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from devassist.core.errors import SandboxStarting
from devassist.core.scope import Scope
from devassist.ports.sandbox import Execution, Program, SandboxState
from devassist.sandbox.choice import Candidate, ChosenSandbox
from devassist.sandbox.stats import Counts
from devassist.sandbox.wasi import WasiSandbox
from tests.runtime.world import until

ANN = Scope("default", "ann")
DONE = Execution("1\n", "", 0, 1, False, False, False, "wasi", "image", "limits")


class SlowToOpen:
    """A backend whose opening says what it is at and ends when it is let."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.doing = ""
        self.go_on = asyncio.Event()

    async def open(self) -> None:
        self.doing = "Building it: once ..."
        await self.go_on.wait()

    async def execute(self, scope: Scope, program: Program) -> Execution:
        return DONE

    def state(self) -> SandboxState:
        return SandboxState("wasi", "image", "limits")

    async def close(self) -> None:
        pass


async def nothing() -> None:
    pass


async def opening(backend: SlowToOpen, patience_s: float) -> tuple[ChosenSandbox, asyncio.Task[None]]:
    """A choice whose opening goes on in the background, as beside the serving."""
    choice = ChosenSandbox([Candidate("wasi", (), nothing, lambda: backend)], patience_s)
    await choice.choose()
    assert choice.fault == ""
    task = asyncio.create_task(choice.open())
    await until(lambda: choice.fault)
    return choice, task


async def test_a_program_is_told_that_the_sandbox_is_being_made_ready() -> None:
    """It is unavailable with what is being done, and runs once that is done; health tells the same."""
    backend = SlowToOpen()
    choice, task = await opening(backend, 0.05)
    assert choice.fault == "wasi: it is being made ready: Building it: once ..."
    with pytest.raises(SandboxStarting, match=r"being made ready: Building it.*Try again in a minute"):
        await choice.execute(ANN, Program("print(1)", 5))
    backend.go_on.set()
    await task
    assert choice.fault == ""
    assert await choice.execute(ANN, Program("print(1)", 5)) == DONE


async def test_a_program_waits_for_an_opening_that_takes_moments() -> None:
    """It runs as soon as that is done."""
    backend = SlowToOpen()
    choice, task = await opening(backend, 30)
    program = asyncio.create_task(choice.execute(ANN, Program("print(1)", 5)))
    await asyncio.sleep(0)
    backend.go_on.set()
    assert await program == DONE
    await task


async def test_what_is_not_built_is_named_so(tmp_path: Path) -> None:
    """A look at WebAssembly that no start has built says that one will, and starts nothing."""
    state = WasiSandbox(tmp_path / "cache").state()
    assert "not built yet" in state.image
    assert not (tmp_path / "cache").exists()
