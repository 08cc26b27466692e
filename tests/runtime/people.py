"""Asking people in the runtime's tests: who they are, and answering as they do."""

from __future__ import annotations

from typing import Any

from devassist.core.events import Held
from devassist.core.scope import Scope
from devassist.runtime.view import RunView
from tests.runtime.read import of
from tests.runtime.rig import USER, Rig

BOB = Scope("default", "bob", frozenset({"user", "admin"}))
"""An administrator who did not begin the run."""
EVE = Scope("default", "eve")
"""A user who did not begin it."""


def digest(view: RunView) -> str:
    """What the run asked for last."""
    return of(view, Held)[-1].digest


async def approved(made: Rig, view: RunView, decision: Any = "approve", **given: Any) -> RunView:
    """The run once it has ended or waits again after what it asked last was answered so."""
    await made.people.approve(USER, view.stream, digest(view), decision, **given)
    return await made.service.wait(USER, view.stream)


async def settled(made: Rig, view: RunView, outcome: Any, step: int = 0, **given: Any) -> RunView:
    """As ``approved``, for a call in doubt."""
    await made.people.settle(USER, view.stream, step, outcome, **given)
    return await made.service.wait(USER, view.stream)
