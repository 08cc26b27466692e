"""The conversation's past, read when the turn comes: earlier questions, the answers that were released, and the tools
whose outcome is unknown since."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from devassist.core.errors import PayloadErased
from devassist.core.event_parts import Past
from devassist.core.events import RunFinished, RunStarted
from devassist.core.scope import SYSTEM
from devassist.core.signals import Fact
from devassist.core.states import CLOSED
from devassist.core.transitions import fold
from devassist.ports.journal import Head, HeadQuery, Heads, Journal
from devassist.runtime.run import ActiveRun
from devassist.runtime.view import decoded, texts_of

TURNS = 20
REMEMBERED = 10_000
"""Runs whose conversations are known to have begun with them."""
SETTLED = "doubt_settled"
"""The fact that a doubt of a closed run was settled, in its stream of notes."""


class Background(NamedTuple):
    """``messages`` oldest first; ``doubts`` are tools of which a call of an earlier run is in doubt still."""

    messages: tuple[Past, ...] = ()
    doubts: tuple[str, ...] = ()


NOTHING = Background()
_ENDED = tuple(str(state) for state in CLOSED)


class History:
    """Reads up to the newest ``TURNS`` finished turns. Turns of another erasure domain are left out: their texts must
    not be copied into this one's."""

    def __init__(self, journal: Journal, heads: Heads) -> None:
        self._journal, self._heads = journal, heads
        self._fresh: dict[bytes, None] = {}

    def is_fresh(self, stream: bytes) -> None:
        """The run's conversation began with it: nothing to read. The oldest are forgotten: some runs never ask."""
        self._fresh[stream] = None
        if len(self._fresh) > REMEMBERED:
            del self._fresh[next(iter(self._fresh))]

    async def read(self, run: ActiveRun) -> Background:
        """The past of a run's conversation; its texts are put beside the run's."""
        fresh = run.stream in self._fresh
        self._fresh.pop(run.stream, None)
        if run.request.history:
            return Background(tuple(Past(role, run.seal(content)) for role, content in run.request.history))
        started = run.state.started
        if fresh or not started.conversation:
            return NOTHING
        # What has ended by now: a later message of the conversation cannot have, it waits for this one.
        query = HeadQuery(
            _ENDED, bytes.fromhex(started.actor), started.conversation, limit=TURNS, roots_only=True
        )  # fmt: skip
        replaced = {started.replaces}
        past: list[Past] = []
        effects = {t.name for t in run.definition.tools if t.effect == "once"}
        doubts = set[str]()
        for head in await self._heads.list(SYSTEM, query):
            if head.tenant != started.tenant:
                continue
            first = decoded(await self._journal.read(SYSTEM, head.stream, -1, 1))[0][0]
            assert isinstance(first, RunStarted), "a run begins with INIT"
            if effects and first.on_unknown == "tell":
                doubts |= effects & await self._doubts(head)
            past = [*(await self._turn(run, head, first, replaced)), *past]
        return Background(tuple(past), tuple(sorted(doubts)))

    async def _doubts(self, head: Head) -> set[str]:
        """The tools of calls of an ended run whose outcome was told to its model as unknown, and is still."""
        state = fold(decoded(await self._journal.read(SYSTEM, head.stream)))
        if state is None or not state.doubts:
            return set()
        notes = await self._heads.named(replace(SYSTEM, tenant=head.tenant), "notes", head.stream.hex())
        said = [] if notes is None else decoded(await self._journal.read(SYSTEM, notes.stream))
        settled = {dict(e.data).get("of") for e, _, _ in said if isinstance(e, Fact) and e.name == SETTLED}
        return {tool for tool, intent in state.doubts if str(intent) not in settled}

    async def _turn(self, run: ActiveRun, head: Head, first: RunStarted, replaced: set[str | None]) -> list[Past]:
        hidden = head.stream.hex() in replaced
        replaced.add(first.replaces)
        if hidden or head.state != "FINAL_ANSWER" or first.domain != run.state.started.domain:
            return []
        placed = decoded(await self._journal.read(SYSTEM, head.stream, head.head_seq - 1, 1))
        last = placed[0][0]
        if not isinstance(last, RunFinished):
            return []
        try:
            texts = await texts_of(self._journal, SYSTEM, head.stream, [(first, 0, 0), *placed])
        except PayloadErased:
            return []
        if first.message not in texts or last.answer not in texts:
            return []
        run.texts |= {first.message: texts[first.message], last.answer: texts[last.answer]}
        return [Past("user", first.message), Past("assistant", last.answer)]
