"""Knowledge as JSON, for HTTP and command line alike, and where a clause stands today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from devassist.core.errors import DocumentNotFound, RevisionNotFound
from devassist.core.scope import Scope
from devassist.ports.curation import Curator, DiffLine, Document, IndexState, Ingestion
from devassist.ports.decision_log import Reliance
from devassist.ports.knowledge_store import Belief, Clause, DocumentRow, Quarantined, Revision
from devassist.ports.library import Answered, ClauseHit
from devassist.ports.rerun import Placed, Rerun

Standing = Literal["in_force", "renumbered", "changed", "removed", "not_in_force"]
"""Of a clause today: it stands as it was, under another number, with another text, its document holds without it, or
none of the document's revisions holds."""


@dataclass(frozen=True, slots=True)
class ClauseNow:
    """A clause of a revision, and what holds in its place today (None where nothing does)."""

    revision: Revision
    clause: Clause
    standing: Standing
    today_rev: str | None
    today: Clause | None


async def clause_now(curator: Curator, scope: Scope, clause_id: str) -> ClauseNow:
    """Raises RevisionNotFound for a clause that is not there for this caller."""
    rev_id, mark, _ = clause_id.partition("#")
    revision = await curator.revision(scope, rev_id)
    clause = next((c for c in revision.clauses if c.clause_id == clause_id), None)
    if clause is None or not mark:
        raise RevisionNotFound(f"There is no revision {rev_id}." if not mark else f"There is no clause {clause_id}.")
    try:
        current = (await curator.document(scope, revision.doc_id)).revision
    except DocumentNotFound:  # deleted: an administrator still reads the record
        current = None
    if current is None:
        return ClauseNow(revision, clause, "not_in_force", None, None)
    heir = next((c for c in current.clauses if c.lineage_id == clause.lineage_id), None)
    return ClauseNow(revision, clause, _standing(clause, heir), current.rev_id, heir)


def _standing(clause: Clause, heir: Clause | None) -> Standing:
    if heir is None:
        return "removed"
    if heir.text_sha256 != clause.text_sha256:
        return "changed"
    return "in_force" if heir.label == clause.label else "renumbered"


def iso_time(us: int) -> str:
    return datetime.fromtimestamp(us / 1_000_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def row_json(row: DocumentRow) -> dict[str, Any]:
    return {
        "doc_id": row.doc_id, "collection": row.collection, "title": row.title, "kind": row.kind, "lang": row.lang,
        "labels": list(row.labels), "state": row.state, "rev_id": row.rev_id, "valid_from": row.valid_from,
        "valid_to": row.valid_to, "revisions": row.revisions, "clauses": row.clauses,
    }  # fmt: skip


def belief_json(belief: Belief) -> dict[str, Any]:
    ended = belief.recorded_to
    return {
        "rev_id": belief.rev_id, "status": belief.status, "valid_from": belief.valid_from, "valid_to": belief.valid_to,
        "recorded_from": iso_time(belief.recorded_from), "recorded_to": None if ended is None else iso_time(ended),
    }  # fmt: skip


def clause_json(clause: Clause) -> dict[str, Any]:
    return {
        "clause_id": clause.clause_id, "lineage_id": clause.lineage_id, "chunk_index": clause.ordinal,
        "kind": clause.kind, "label": clause.label, "heading": " > ".join(clause.headings), "text": clause.text,
        "text_sha256": clause.text_sha256, "page": clause.page,
    }  # fmt: skip


def revision_json(revision: Revision) -> dict[str, Any]:
    return {
        "rev_id": revision.rev_id, "title": revision.title, "issuer": revision.issuer, "kind": revision.kind,
        "lang": revision.lang, "valid_from": revision.valid_from, "effective_date": revision.effective_date,
        "effective_date_basis": revision.effective_basis, "promulgated_on": revision.promulgated_on,
        "source": revision.source.url, "media_type": revision.source.media_type, "parser": revision.source.parser,
        "charset": revision.source.charset, "raw_sha256": revision.source.raw_sha256,
        "content_sha256": revision.content_sha256,
        "history": [
            {
                "date": e.date, "by": e.by, "action": e.action, "instrument": e.instrument, "changes_basis": e.basis,
                "changes": [
                    {"op": c.op, "from": c.before, "to": c.after, "similarity": c.similarity} for c in e.changes
                ],
            }
            for e in revision.history
        ],
        "clauses": [clause_json(c) for c in revision.clauses],
    }  # fmt: skip


def document_json(document: Document) -> dict[str, Any]:
    revision = document.revision
    return {
        **row_json(document.row), "beliefs": [belief_json(b) for b in document.beliefs],
        "revision": None if revision is None else revision_json(revision),
    }  # fmt: skip


def clause_now_json(found: ClauseNow) -> dict[str, Any]:
    r = found.revision
    return {
        **clause_json(found.clause), "doc_id": r.doc_id, "rev_id": r.rev_id, "collection": r.collection,
        "title": r.title, "valid_from": r.valid_from, "effective_date": r.effective_date, "source": r.source.url,
        "changed_since": found.standing != "in_force", "standing": found.standing,
        "today": None if found.today is None else {"rev_id": found.today_rev, **clause_json(found.today)},
    }  # fmt: skip


def diff_json(lines: list[DiffLine]) -> list[dict[str, Any]]:
    return [
        {
            "op": "keep" if line.change is None else line.change.op,
            "similarity": None if line.change is None else line.change.similarity,
            "before": None if line.before is None else clause_json(line.before),
            "after": None if line.after is None else clause_json(line.after),
        }
        for line in lines
    ]


def ingestion_json(done: Ingestion) -> dict[str, Any]:
    return {
        "name": done.name, "outcome": done.outcome, "doc_id": done.doc_id, "rev_id": done.rev_id,
        "clauses": done.clauses, "changes": None if done.changes is None else dict(done.changes), "code": done.code,
        "detail": done.detail, "warnings": list(done.warnings),
    }  # fmt: skip


def quarantined_json(file: Quarantined) -> dict[str, Any]:
    return {
        "name": file.name, "collection": file.collection, "code": file.code, "detail": file.detail,
        "raw_sha256": file.raw_sha256, "at": iso_time(file.at),
    }  # fmt: skip


def hit_json(hit: ClauseHit, rank: int) -> dict[str, Any]:
    return {
        "rank": rank, "doc_id": hit.doc_id, "rev_id": hit.rev_id, "clause_id": hit.clause_id, "title": hit.title,
        "heading": hit.heading, "label": hit.label, "text": hit.text, "source": hit.source,
        "chunk_index": hit.chunk_index, "collection": hit.collection, "effective_date": hit.effective_date,
        "effective_date_basis": hit.effective_basis, "valid_from": hit.valid_from, "valid_to": hit.valid_to,
        "revision_date": hit.revision_date, "latest_revision": hit.latest_revision, "score": round(hit.score, 6),
        "why": [{"arm": w.arm, "rank": w.rank, "score": round(w.score, 6)} for w in hit.why],
    }  # fmt: skip


def answered_json(found: Answered, *, admin: bool) -> dict[str, Any]:
    """What only administrators are shown counts or numbers what others may not see."""
    shown: dict[str, Any] = {
        "hits": [hit_json(hit, rank) for rank, hit in enumerate(found.hits, 1)], "reason": found.reason,
        "as_of": found.as_of, "known_at": iso_time(found.known_at), "rule": found.rule,
        "arms": [{"arm": a.arm, "found": a.found, "left_out": a.left_out} for a in found.arms],
        "embedder": found.embedder, "index_behind": found.dense_asked and found.index_lag > 0,
    }  # fmt: skip
    if admin:
        lag = found.index_lag if found.dense_asked else 0
        shown |= {"withheld": found.withheld, "index_version": found.index_version, "index_lag": lag}
    return shown


def index_json(state: IndexState, *, admin: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "embedder": state.embedder, "index": state.index, "ready": state.ready, "behind": state.lag > 0,
    }  # fmt: skip
    if admin:
        shown |= {
            "version": state.version, "head": state.head, "applied": state.applied, "lag": state.lag,
            "clauses": state.clauses, "waiting": state.waiting, "fault": state.fault,
        }  # fmt: skip
    return shown


def reliance_json(row: Reliance) -> dict[str, Any]:
    return {
        "trace_id": row.trace_id, "at": iso_time(row.at), "user_id": row.user_id,
        "conversation_id": row.conversation_id, "agent": row.agent, "state": row.state, "used": row.used,
        "rank": row.rank, "doc_id": row.doc_id, "rev_id": row.rev_id, "clause_id": row.clause_id,
    }  # fmt: skip


def rerun_json(again: Rerun) -> dict[str, Any]:
    return {
        "query": again.query, "collections": list(again.collections), "as_of": again.as_of, "day_now": again.day_now,
        "known_at": iso_time(again.known_at), "labels": None if again.labels is None else list(again.labels),
        "rule": again.rule, "fault": again.fault, "differs": again.differs,
        "eligibility": {"equal": again.equal, "checked": again.checked, "ineligible": list(again.ineligible)},
        "sides": [
            {"recorded": _placed(side.recorded), "now": _placed(side.now), "cause": side.cause} for side in again.sides
        ],
    }  # fmt: skip


def _placed(placed: Placed | None) -> Mapping[str, Any] | None:
    if placed is None:
        return None
    return {"rank": placed.rank, "rev_id": placed.rev_id, "clause_id": placed.clause_id}
