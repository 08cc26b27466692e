"""The held start: a journal that was put back to an earlier state is read, and not driven, until a person goes on.

What happened in the lost window is not on record, also not which effects took place. So nothing is begun or claimed
until somebody has seen that: ``resume`` tells every open run of it, whose ``once`` calls then need a person, each.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from devassist.core.errors import DevAssistError, HeldStart
from devassist.core.lineage import How, Place, Rewind, noticed
from devassist.core.scope import SYSTEM, Scope
from devassist.core.signals import Fact, RunRestored
from devassist.core.states import OPEN
from devassist.ports.clock import Clock
from devassist.ports.journal import Body, Head, HeadQuery, Heads, Journal
from devassist.ports.lineage import Lineage, Positions
from devassist.ports.vault import Vault
from devassist.runtime.view import decoded

log = logging.getLogger("devassist.runtime")

STREAM = "restores"
REMEMBER_S = 1.0
"""How often the journal's end is remembered: a rewind by less than what happens in this time may go unseen."""
LOOK_S = 0.25
"""How soon a held process sees that a person goes on."""
_PAGE = 500
_WHY: dict[How, str] = {
    "restored": "the journal was restored from a backup",
    "by_hand": "the journal was put back to an earlier state",
    "replaced": "the journal is not the one that the key directory remembers: that one was lost or replaced",
    "copied": "the journal is a copy made by 'devassist backup'",
}


class Gate:
    """Whether runs may be begun and claimed; shut while ``rewind`` is set."""

    def __init__(self) -> None:
        self.rewind: Rewind | None = None

    @property
    def shut(self) -> bool:
        return self.rewind is not None

    def check(self) -> None:
        """Raises HeldStart, which says what to do."""
        if self.rewind is not None:
            raise HeldStart(said(self.rewind))


class Resumed(NamedTuple):
    """``runs`` were open, and were told of the rewind."""

    rewind: Rewind
    runs: int


class Hold:
    """Notices a rewind, remembers the journal's end while there is none, and lets a person go on from one."""

    def __init__(
        self, lineage: Lineage, positions: Positions, journal: Journal, heads: Heads, vault: Vault, clock: Clock
    ) -> None:  # fmt: skip
        self.gate = Gate()
        self._lineage, self._positions = lineage, positions
        self._journal, self._heads, self._vault, self._clock = journal, heads, vault, clock
        self._last: Place | None = None
        self._task: asyncio.Task[None] | None = None

    # -- noticing ------------------------------------------------------------------------------------------------

    async def pending(self) -> Rewind | None:
        """A rewind that was noticed, and that nobody has gone on from."""
        mark = await self._lineage.rewind()
        return None if mark is None or mark.how == "copied" else mark

    async def notice(self) -> Rewind | None:
        """The same, looking for one: what is noticed now is marked in the journal."""
        remembered = await self._positions.read()  # before the journal's end, which it then cannot be ahead of
        mark, place = await self._lineage.rewind(), await self._lineage.place()
        there = await self._lineage.hash_at(remembered.row) if remembered is not None else None
        found = noticed(mark, remembered, place, there, now=self._clock.now_us(), fresh=self._clock.random(16).hex())
        return found if found is None or found is mark else await self._lineage.mark(found)

    async def open(self) -> None:
        """Look, and shut the gate if need be. What is derived may then be of a journal that is no more."""
        self.gate.rewind = rewind = await self.notice()
        if rewind is None:
            await self._remember()
        else:
            log.warning("held: %s", said(rewind))

    # -- while a process drives ----------------------------------------------------------------------------------

    def start(self, released: Callable[[], Awaitable[None]]) -> None:
        """Remember the journal's end every second; while held, wait for the word to go on, and call ``released``."""
        self._task = asyncio.create_task(self._watch(released), name="position")

    async def close(self) -> None:
        """Idempotent; the journal's end as of now is remembered."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not self.gate.shut:
            with suppress(DevAssistError):
                await self._remember()

    async def _watch(self, released: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(LOOK_S if self.gate.shut else REMEMBER_S)
            try:
                if not self.gate.shut:
                    await self._remember()
                elif await self._lineage.rewind() is None:
                    self.gate.rewind = None
                    log.warning("no longer held: runs are taken up")
                    await released()
            except DevAssistError as error:  # a full disk now is no reason not to try again
                log.warning("where the journal stands cannot be remembered: %s", error)
            except Exception:  # the loop must outlive one bad turn
                log.exception("where the journal stands cannot be remembered")

    async def _remember(self) -> None:
        place = await self._lineage.place()
        if place != self._last:
            await self._positions.write(place)
            self._last = place

    # -- going on ------------------------------------------------------------------------------------------------

    async def resume(self, scope: Scope) -> Resumed | None:
        """Go on from a rewind in the caller's name; None when there is none. May be called again after a crash.

        Every open run is told first, so whoever drives them next finds it on record.
        """
        rewind = await self.notice()
        if rewind is None:
            return None
        await self.record(scope, rewind)
        runs = await self._tell(rewind)
        data = {"incarnation": rewind.incarnation, "runs": str(runs)}
        await self._note(scope, "resumed", data)
        await self._positions.write(await self._lineage.place())
        await self._lineage.clear()
        return Resumed(rewind, runs)

    async def record(self, scope: Scope, rewind: Rewind) -> None:
        """The fact ``restored``, with its window; once for each rewind."""
        head = await self._heads.named(scope, "deploy", STREAM)
        for fact, _, _ in [] if head is None else decoded(await self._journal.read(SYSTEM, head.stream)):
            which = dict(fact.data).get("incarnation") if isinstance(fact, Fact) and fact.name == "restored" else None
            if which == rewind.incarnation:
                return
        data = {
            "how": rewind.how, "incarnation": rewind.incarnation, "previous": rewind.previous,
            "window_from": str(rewind.window_from), "window_to": str(rewind.window_to),
            "window_known": str(rewind.known).lower(),
        }  # fmt: skip
        await self._note(scope, "restored", data)

    async def _tell(self, rewind: Rewind) -> int:
        event = RunRestored(f"restored:{rewind.incarnation}", rewind.window_from, rewind.window_to)
        body, told = Body.of(event), 0
        async for page in open_runs(self._heads):
            signals = [
                self._journal.signal(SYSTEM, head.stream, event.signal_id, body, self._clock.now_us()) for head in page
            ]
            told += sum(seq is not None for seq in await asyncio.gather(*signals))
        return told

    async def _note(self, scope: Scope, name: str, data: dict[str, str]) -> None:
        actor = await self._vault.domain(scope, "user", scope.actor)
        fact = Fact(name, actor.hex(), tuple(data.items()))
        await self._journal.note(scope, "deploy", STREAM, [Body.of(fact)], self._clock.now_us())


async def open_runs(heads: Heads) -> AsyncGenerator[list[Head]]:
    """Pages of the runs that have not ended, of all tenants, newest first."""
    before: bytes | None = None
    while page := await heads.list(SYSTEM, HeadQuery(states=tuple(map(str, OPEN)), before=before, limit=_PAGE)):
        yield page
        before = page[-1].stream


def said(rewind: Rewind) -> str:
    """For people: what happened, which time is lost, and what to do."""
    end = utc(rewind.window_to) if rewind.known else "a time that is not known"
    return (
        f"{_WHY[rewind.how]}, and what happened from {utc(rewind.window_from)} to {end} is not in it. No run is begun "
        "or driven until a person goes on: 'devassist restore --resume' does, and asks a person about every effect "
        "of an open run that may have taken place in that time"
    )


def utc(us: int) -> str:
    """A time for people and programs; the beginning of all where there is none."""
    return "the beginning" if us <= 0 else datetime.fromtimestamp(us / 1_000_000, UTC).isoformat(timespec="seconds")
