"""The graph of every run that ends becomes a file, and no file holds the words of a domain that was erased."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devassist.core.scope import SYSTEM
from devassist.observability.graph_files import GraphFiles
from devassist.runtime.clock import SystemClock
from devassist.runtime.erasure import erase
from devassist.runtime.view import RunView
from tests.runtime.rig import USER, rig
from tests.runtime.world import final, until


async def handled(made: Any, graphs: GraphFiles) -> None:
    records = await made.journal.changes(graphs.cursor)
    await graphs.handle(records)
    graphs.cursor = records[-1].row


async def ended(made: Any, told: list[RunView], message: str) -> RunView:
    view = await made.ask(message)
    await until(lambda: any(run.stream == view.stream for run in told))
    return view


def files(directory: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in directory.glob("*.mmd")}


@pytest.mark.parametrize("drawn", [True, False])
async def test_a_file_is_the_same_drawn_at_the_end_or_read_back(tmp_path: Path, drawn: bool) -> None:
    """Each run that ended has its file, whether it was drawn in memory or its end was only read."""
    told: list[RunView] = []
    async with rig([final("Here.")]) as made:
        made.service.ended = told.append
        graphs = GraphFiles(made.journal, tmp_path, 0)
        view = await ended(made, told, "where")
        if drawn:
            graphs.draw(view)
        await handled(made, graphs)
    found = files(tmp_path)
    assert list(found) == [view.stream.hex()]
    first, _, chart = found[view.stream.hex()].partition("\n")
    assert first.endswith(f"domain {view.state.started.domain}")
    assert "Message#58; where" in chart
    assert "Answer#58; Here" in chart


@pytest.mark.parametrize("late", [True, False])
async def test_no_graph_of_an_erased_domain_is_written(tmp_path: Path, late: bool) -> None:
    """A run whose end and erasure come in one batch leaves no file, nor does one that is drawn after the erasure."""
    told: list[RunView] = []
    async with rig([final("Here.")]) as made:
        made.service.ended = told.append
        graphs = GraphFiles(made.journal, tmp_path, 0)
        view = await ended(made, told, "where")
        if not late:
            graphs.draw(view)
        assert await erase(made.vault, made.journal, SystemClock(), USER, "user", USER.actor)
        await handled(made, graphs)
        if late:
            graphs.draw(view)
            await graphs.handle(await made.journal.read(SYSTEM, view.stream))
    assert files(tmp_path) == {}
