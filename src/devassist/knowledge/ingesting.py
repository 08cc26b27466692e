"""How files become revisions: parsed, told apart from what is known, planned, committed, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol

from devassist.core.errors import CallerError, KnowledgeConflict
from devassist.core.scope import Scope
from devassist.knowledge.asset_files import revision_of_asset
from devassist.knowledge.assets import is_date
from devassist.knowledge.parsing.document import ParsedDocument, Quarantine
from devassist.knowledge.revising import Came, doc_id_of, revise, unchanged, valid_from_of
from devassist.knowledge.timeline import believed, plan_revision, predecessor
from devassist.ports.clock import Clock
from devassist.ports.curation import MAX_FILE_BYTES, Given, Incoming, Ingestion
from devassist.ports.knowledge_store import Belief, Ingested, KnowledgeStore, Plan, Quarantined

_TRIES = 3  # of a plan that another process made stale
_ASSET_PARSER = "asset/1"


class Parses(Protocol):
    """What turns bytes into a document, or says why not; never raises for a file's own fault."""

    async def parse(self, data: bytes, name: str) -> ParsedDocument | Quarantine: ...
    async def close(self) -> None: ...


class Ingester:
    """``commit`` makes a plan durable; ``today`` gives the day as an ISO date."""

    def __init__(
        self, store: KnowledgeStore, parser: Parses, clock: Clock, *, today: Callable[[], str],
        commit: Callable[[Scope, Plan], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._store, self._parser, self._clock, self._today, self._commit = store, parser, clock, today, commit

    async def ingest(self, scope: Scope, files: Iterable[Incoming], given: Given) -> AsyncIterator[Ingestion]:
        """See ports.curation. Raises CallerError (``invalid_date``)."""
        for name in ("effective", "valid_to"):
            day = getattr(given, name)
            if day is not None and not is_date(day):
                raise CallerError(f"{name} {day[:40]!r} is not a date; write YYYY-MM-DD.", code="invalid_date")
        for file in files:
            yield await self._one(scope, file, given)

    async def _one(self, scope: Scope, file: Incoming, given: Given) -> Ingestion:
        data = await asyncio.to_thread(_bytes_of, file)
        if isinstance(data, Quarantine):
            return await self._set_aside(scope, file.name, "", data, given)
        digest = sha256(data).hexdigest()
        known = await self._store.ingested(scope, given.collection, file.name)
        if known is not None and known.raw_sha256 == digest and await self._stands(scope, known, given):
            return Ingestion(file.name, "unchanged", known.rev_id.partition("@")[0], known.rev_id)
        parsed = await self._parser.parse(data, file.name)
        if isinstance(parsed, Quarantine):
            return await self._set_aside(scope, file.name, digest, parsed, given)
        came = Came(file.name, digest, iso(self._clock.now_us()), self._today())
        for attempt in range(_TRIES):
            try:
                return await self._take(scope, parsed, data, given, came)
            except KnowledgeConflict as error:
                if parsed.asset is not None or attempt == _TRIES - 1:
                    return await self._set_aside(scope, file.name, digest, Quarantine("malformed", error.detail), given)
        raise AssertionError("every attempt returns or raises")

    async def _take(self, scope: Scope, parsed: ParsedDocument, data: bytes, given: Given, came: Came) -> Ingestion:
        if parsed.asset is not None:
            return await self._take_asset(scope, parsed.asset, data, given, came)
        doc_id = doc_id_of(parsed, given, came.name)
        beliefs = await self._store.beliefs(scope, doc_id)
        valid_from, _, _ = valid_from_of(parsed, given, came.today)
        earlier = predecessor(beliefs, valid_from)
        before = None if earlier is None else await self._store.revision(scope, earlier)
        if unchanged(parsed, before, given) and before is not None:
            await self._note(scope, came, parsed.parser, before.rev_id, given)
            return Ingestion(came.name, "unchanged", doc_id, before.rev_id, len(before.clauses))
        revision, counts = revise(parsed, given, came, doc_id, beliefs, before)
        plan = plan_revision(beliefs, revision, raw=data, valid_to=given.valid_to)
        await self._commit(scope, plan)
        await self._note(scope, came, parsed.parser, revision.rev_id, given)
        return Ingestion(
            came.name, _outcome(plan, beliefs), doc_id, revision.rev_id, len(revision.clauses),
            dict(counts) if before is not None else None, warnings=parsed.warnings,
        )  # fmt: skip

    async def _take_asset(
        self, scope: Scope, asset: Mapping[str, Any], data: bytes, given: Given, came: Came
    ) -> Ingestion:
        revision = revision_of_asset(asset, given)
        beliefs = await self._store.beliefs(scope, revision.doc_id)
        end = given.valid_to or asset["valid_to"]
        row = next((b for b in believed(beliefs) if b.rev_id == revision.rev_id), None)
        stored = await self._store.revision(scope, revision.rev_id)
        same = stored is not None and (stored.content_sha256, stored.labels) == (
            revision.content_sha256, revision.labels
        )  # fmt: skip
        if row is not None and same and end in (None, row.valid_to):
            await self._note(scope, came, _ASSET_PARSER, revision.rev_id, given)
            return Ingestion(came.name, "unchanged", revision.doc_id, revision.rev_id, len(revision.clauses))
        if stored is not None and not same:
            raise KnowledgeConflict(
                f"{revision.rev_id} is there with another text; a correction is {revision.rev_id}.1"
            )
        plan = plan_revision(beliefs, revision, raw=data, valid_to=end)
        await self._commit(scope, plan)
        await self._note(scope, came, _ASSET_PARSER, revision.rev_id, given)
        return Ingestion(came.name, _outcome(plan, beliefs), revision.doc_id, revision.rev_id, len(revision.clauses))

    async def _stands(self, scope: Scope, known: Ingested, given: Given) -> bool:
        """Whether what a file became is still believed, and nothing else is asked of it this time."""
        asked = (given.doc_id, given.title, given.kind, given.effective, given.valid_to, given.issuer, given.url)
        if any(asked):
            return False
        rows = believed(await self._store.beliefs(scope, known.rev_id.partition("@")[0]))
        if known.rev_id not in {b.rev_id for b in rows}:
            return False
        revision = await self._store.revision(scope, known.rev_id)
        return revision is not None and (not given.labels or revision.labels == tuple(sorted(given.labels)))

    async def _note(self, scope: Scope, came: Came, parser: str, rev_id: str, given: Given) -> None:
        await self._store.note_ingested(scope, [Ingested(came.name, came.raw_sha256, parser, rev_id)])

    async def _set_aside(self, scope: Scope, name: str, digest: str, why: Quarantine, given: Given) -> Ingestion:
        row = Quarantined(name, digest, why.code, why.detail, self._clock.now_us(), given.collection)
        await self._store.quarantine(scope, [row])
        return Ingestion(name, "quarantined", code=why.code, detail=why.detail)


def _outcome(plan: Plan, beliefs: list[Belief]) -> Literal["added", "amended", "corrected"]:
    if plan.reason == "corrected":
        return "corrected"
    return "amended" if believed(beliefs) else "added"


def _bytes_of(file: Incoming) -> bytes | Quarantine:
    try:
        if file.data is not None:
            size = len(file.data)
        else:
            assert file.path is not None, "a file comes with its bytes or its path"
            size = Path(file.path).stat().st_size
        if size > MAX_FILE_BYTES:
            return Quarantine("too_large", f"{size:,} bytes; at most {MAX_FILE_BYTES:,} are read")
        return file.data if file.data is not None else Path(file.path or "").read_bytes()
    except OSError as error:
        return Quarantine("malformed", f"cannot be read: {error.strerror or error}")


def iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
