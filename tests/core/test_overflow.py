"""Prompts that a model's context does not hold: made shorter, never sent again as they were, then taken elsewhere."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from devassist.core.commands import CallModel, Command, Fail, Switch
from devassist.core.decide import decide
from devassist.core.events import ModelFailed, ModelIntended
from devassist.core.patience import MAX_OVERFLOWS
from devassist.core.prompt import assemble, droppable
from devassist.core.transitions import OVERFLOW, _left_out
from tests.core.build import Script
from tests.core.failing import begun, failed, intend, switch
from tests.core.steps_to import LOOK
from tests.core.test_prompt import defined, transcripts


def stepped(script: Script, steps: int) -> None:
    for _ in range(steps):
        intend(script)
        script.calls(LOOK)
        script.attempt()
        script.returned(0, "x" * 300)


def overflow(script: Script, tokens: int, left: tuple[int, ...]) -> Command | None:
    intend(script, tokens=tokens, left=left)
    script.add(ModelFailed(script.now.open_model, OVERFLOW, 502, False, 1))
    return decide(script.now)


def test_a_prompt_is_made_shorter_a_few_times_and_then_goes_elsewhere() -> None:
    """At once, without a pause, and never counted as a failure of the provider."""
    script = begun(fallbacks=1)
    stepped(script, 5)
    first, *_, last = [e.seq for e in script.now.transcript if e.role != "user"]
    ceilings: list[int] = []
    for number in range(MAX_OVERFLOWS):
        command = overflow(script, 1000 >> number, (first, first + number) if number else ())
        assert command == CallModel(5, script.now.attempts + 1)
        ceilings.append(script.now.ceiling)
    assert ceilings == [600, 300]
    assert switch(script, overflow(script, 250, (first, last - 6))) == Switch(1, OVERFLOW)
    assert (script.now.failures, script.now.ceiling, script.now.overflows) == (0, 0, 0)


def test_a_prompt_that_cannot_be_made_shorter_is_not_sent_again() -> None:
    """An identical request would be refused in the same words."""
    assert failed(begun(fallbacks=1), OVERFLOW) == Switch(1, OVERFLOW)
    script = begun()
    stepped(script, 3)
    kept = droppable(script.now.transcript)
    seqs = [e.seq for e in script.now.transcript if e.role != "user"][:kept]
    assert overflow(script, 1000, (seqs[0], seqs[-1] + 1)) == Fail(OVERFLOW, 502)


@given(transcripts(), st.integers(40, 4_000))
def test_each_shorter_prompt_is_shorter(drawn: Any, context_tokens: int) -> None:
    """Whatever the transcript: as long as something may still be left out, the next prompt is another one, of fewer
    messages, and as short as was wanted or as can be."""
    transcript, texts = drawn
    definition, ceiling, last = defined(context_tokens), 0, None
    for _ in range(len(transcript) + 2):
        prompt = assemble(transcript, definition, texts.__getitem__, lambda ref: len(texts[ref]) // 3 + 4, ceiling)
        assert last is None or len(prompt.messages) < len(last.messages)
        intent = ModelIntended(0, 1, "m", "openai", 1, (), prompt.tokens, left_history=prompt.left_history,
                               left=prompt.left)  # fmt: skip
        left_out = _left_out(transcript, intent)
        assert left_out == len(transcript) + 1 - len(prompt.messages)
        if droppable(transcript) <= left_out:
            return
        assert prompt.tokens <= (ceiling or context_tokens)
        last, ceiling = prompt, prompt.tokens * 3 // 5
    raise AssertionError("it never came to the shortest prompt")
