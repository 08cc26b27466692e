"""Verification of one stream: is what is stored what was appended?

Everything is computed again from the raw rows: sequence, times, canonical bodies, links, meaning, the columns of the
head, the signal index, and every payload that a body names. What is wrong is reported, never raised, each fault with
its row. What this cannot see: a stream that was rewritten as a whole, consistently, by whoever can write the database
(new texts need the keys too).
"""

from __future__ import annotations

import asyncio
from typing import cast

from devassist.audit.columns import head_faults, unhex
from devassist.audit.rows import Walk
from devassist.core.chain import PUBLIC_DOMAIN
from devassist.core.errors import JournalCorrupt, PayloadErased, RunNotFound
from devassist.core.event_codec import refs
from devassist.core.scope import SYSTEM, Scope
from devassist.ports.audit import Report
from devassist.ports.journal import Fault, Head, Heads, Inspector, Record
from devassist.ports.vault import Payload, Vault

PORTION = 200
"""Rows or payloads checked before others on the loop get a turn."""


class Verifier:
    """Reads through the ports and changes nothing."""

    def __init__(self, heads: Heads, inspector: Inspector, vault: Vault) -> None:
        self._heads = heads
        self._inspector = inspector
        self._vault = vault

    async def verify(self, scope: Scope, stream: bytes) -> Report:
        """Raises RunNotFound where the scope sees no such stream; whatever is wrong with one is in the report."""
        faults: list[Fault] = []
        head = await self._head(scope, stream, faults)
        rows = await self._rows(stream)
        walk = Walk(stream, run=head is not None and head.kind == "run")
        for start in range(0, len(rows), PORTION):
            walk.take(rows[start : start + PORTION])
            await asyncio.sleep(0)
        if head is None:
            tenant = walk.state.started.tenant if walk.state else None
            nothing = not rows and not faults
            if nothing or (not scope.is_system and tenant != scope.tenant):
                raise RunNotFound(f"no run {stream.hex()}")
            if not faults:
                faults.append(Fault(f"heads(stream={stream.hex()})", "is missing"))
        else:
            faults += head_faults(head, walk)
        signals = await self._signals(walk) if walk.is_run and rows else []
        texts = _Texts(self._vault, walk)
        await texts.check(self._inspector)
        found = (*walk.faults, *faults, *signals, *texts.faults)
        return Report(
            stream.hex(), not found, len(rows), texts.count, texts.erased,
            _checks(walk, head, len(rows), texts), found,
        )  # fmt: skip

    async def _head(self, scope: Scope, stream: bytes, faults: list[Fault]) -> Head | None:
        try:
            return await self._heads.head(scope, stream)
        except RunNotFound:
            return None
        except (ValueError, TypeError) as error:
            faults.append(Fault(f"heads(stream={stream.hex()})", f"cannot be read: {error}"))
            return None

    async def _rows(self, stream: bytes) -> list[Record]:
        """Whoever sees the head is shown what its rows prove, so the raw rows are read under the system scope."""
        try:
            return await self._inspector.raw_events(SYSTEM, stream)
        except RunNotFound:
            return []

    async def _signals(self, walk: Walk) -> list[Fault]:
        """The index that makes signals unique, against the signals that the stream holds."""
        recorded: dict[tuple[object, object], None] = {}
        for seq, event in walk.events:
            signal_id = getattr(event, "signal_id", None)
            if signal_id is not None:
                recorded[signal_id, seq] = None
        indexed = dict.fromkeys(await self._inspector.raw_signals(SYSTEM, walk.stream))
        missing = [(k, "is not in the index") for k in recorded if k not in indexed]
        extra = [(k, "is no signal of the stream") for k in indexed if k not in recorded] if walk.whole else []
        where = f"signals(stream={walk.stream.hex()}, signal_id="
        return [Fault(f"{where}{key[0]}, seq={key[1]})", problem) for key, problem in (*missing, *extra)]


class _Texts:
    """The payloads that a stream's events name: stored, of the right domain, and the text that was committed to."""

    def __init__(self, vault: Vault, walk: Walk) -> None:
        self.faults: list[Fault] = []
        self.count = 0
        self.erased = 0
        self._vault = vault
        self._named: dict[str, int] = {}
        for seq, event in walk.events:
            for ref in refs(event):
                self._named.setdefault(ref, seq)
        started = walk.state.started if walk.state else None
        self._domain = unhex(started.domain) if started else None
        self._public = started.definition if started else None

    async def check(self, inspector: Inspector) -> None:
        loaded: set[bytes] = {PUBLIC_DOMAIN}
        for index, (ref, seq) in enumerate(self._named.items()):
            if index % PORTION == PORTION - 1:
                await asyncio.sleep(0)
            payload = await inspector.raw_payload(SYSTEM, ref)
            if payload is None:
                self._fault(ref, "", f"is not stored, and seq {seq} names it")
                continue
            self.count += 1
            problem = self._misplaced(ref, payload)
            if problem is not None:
                self._fault(ref, *problem)
                continue
            if payload.domain not in loaded:
                await self._vault.load(frozenset({payload.domain}))
                loaded.add(payload.domain)
            self._open(ref, payload)

    def _fault(self, ref: str, column: str, problem: str) -> None:
        self.faults.append(Fault(f"payloads(ref={ref}){column and '.'}{column}", problem))

    def _misplaced(self, ref: str, payload: Payload) -> tuple[str, str] | None:
        domain, blob = cast("tuple[object, object]", (payload.domain, payload.blob))
        if type(blob) is not bytes:
            return "blob", "is no blob"
        if type(domain) is not bytes or len(domain) != len(PUBLIC_DOMAIN):
            return "domain", "is not 16 bytes"
        if ref == self._public:
            return None if domain == PUBLIC_DOMAIN else ("domain", f"is {domain.hex()}, but a definition is public")
        if self._domain is not None and domain not in (self._domain, PUBLIC_DOMAIN):
            return "domain", f"is {domain.hex()}, the run's is {self._domain.hex()}"
        return None

    def _open(self, ref: str, payload: Payload) -> None:
        try:
            self._vault.open(payload)
        except PayloadErased:
            self.erased += 1
        except JournalCorrupt as error:
            self._fault(ref, "blob", error.detail)


def _checks(walk: Walk, head: Head | None, rows: int, texts: _Texts) -> tuple[str, ...]:
    said = [f"{rows} events: sequence, times, canonical bodies, kinds, hash links, fields"]
    if walk.is_run:
        legal = "all transitions" if walk.whole else f"transitions up to seq {walk.state.seq if walk.state else -1}"
        said.append(f"the fold: {legal}")
        said.append("the signal index against the signals recorded")
    if head is not None:
        said.append("the head's columns" if walk.whole else "the head's place; its other columns need a whole fold")
    said.append(f"{texts.count} payloads: stored, domain, seal, commitment; {texts.erased} erased, not readable")
    return tuple(said)
