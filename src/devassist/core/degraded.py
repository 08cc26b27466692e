"""What an answer was given less well than was asked: codes that the record keeps, and that people are told."""

from __future__ import annotations

from collections.abc import Iterable

from devassist.core.events import RETRY_2, Event, ModelFailed, ModelIntended, ModelReplied, ModelSwitched, RunStarted
from devassist.core.transitions import OVERFLOW

MODEL_SWITCHED = "model_switched"
"""Another model than the agent's own was used."""
PROMPT_SHORTENED = "prompt_shortened"
"""The model's context did not hold the prompt, so less was put into it than the agent's budget allows."""
UNSTRUCTURED = "unstructured"
"""The model did not keep to the reply format."""


def degradations(
    started: RunStarted, events: Iterable[Event], reply: ModelReplied, released: tuple[str, ...]
) -> tuple[str, ...]:  # fmt: skip
    """The codes that the event which ends a run keeps: ``released`` are those of its verdicts. Runs of before flag
    ``retry2`` kept no others."""
    if RETRY_2 not in started.flags:
        return released
    return tuple(dict.fromkeys((*_of_models(events), *([UNSTRUCTURED] if reply.unstructured else ()), *released)))


def _of_models(events: Iterable[Event]) -> list[str]:
    elsewhere = used = overflowed = shortened = False
    for event in events:
        match event:
            case ModelSwitched():
                elsewhere, overflowed, shortened = event.choice != 0, False, False
            case ModelReplied():
                used = used or elsewhere
            case ModelFailed(code=code) if code == OVERFLOW:
                overflowed = True
            case ModelIntended():
                shortened = overflowed
            case _:
                pass
    return [MODEL_SWITCHED] * (elsewhere or used) + [PROMPT_SHORTENED] * shortened
