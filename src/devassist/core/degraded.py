"""What an answer was given less well than was asked: codes that the record keeps, and that people are told."""

from __future__ import annotations

from collections.abc import Iterable

from devassist.core.events import RETRY_2, Event, ModelReplied, ModelSwitched, RunStarted

MODEL_SWITCHED = "model_switched"
"""Another model than the agent's own was used."""
UNSTRUCTURED = "unstructured"
"""The model did not keep to the reply format."""


def degradations(
    started: RunStarted, events: Iterable[Event], reply: ModelReplied, released: tuple[str, ...]
) -> tuple[str, ...]:  # fmt: skip
    """The codes that the event which ends a run keeps: ``released`` are those of its verdicts. Runs of before flag
    ``retry2`` kept no others."""
    if RETRY_2 not in started.flags:
        return released
    codes = [MODEL_SWITCHED] if any(isinstance(event, ModelSwitched) for event in events) else []
    codes += [UNSTRUCTURED] if reply.unstructured else []
    return tuple(dict.fromkeys((*codes, *released)))
