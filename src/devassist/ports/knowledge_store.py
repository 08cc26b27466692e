"""Port to the table of knowledge: revisions of documents, on two time axes, with their clauses and texts.

*Valid* time says when a revision holds in the world, in days; *recorded* time says when this service believed so, in
microseconds since the epoch. Both are half-open. A belief is never changed but to close its ``recorded_to``; what a
revision says is never changed at all. At most one believed revision of a document holds on any day. A lexical index
over the clauses is in the same transaction, and so is the outbox, which everything derived follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from devassist.core.scope import Scope
from devassist.ports.knowledge_rows import ChangeRow, IndexItem, Ingested, OutboxRow, Quarantined

Status = Literal["draft", "published", "repealed", "withdrawn"]
Action = Literal["adopted", "amended", "revised", "repealed", "corrected", "imported"]
Basis = Literal["stated", "external_instrument", "assumed_promulgation", "unknown"]
ClauseKind = Literal[
    "part", "chapter", "section", "article", "paragraph", "item", "preamble", "table", "qa", "code", "annex"
]


@dataclass(frozen=True, slots=True)
class ClauseNumber:
    """The printed number: article, ``sub`` of 第X条之Y, paragraph (款) and item (项); 0 where there is none."""

    article: int
    sub: int = 0
    paragraph: int = 0
    item: int = 0


@dataclass(frozen=True, slots=True)
class Clause:
    """What is searched and cited. ``text`` is canonical (NFC, LF, no trailing blanks); offsets are code points in it.

    ``lineage_id`` stays the same when a clause is renumbered; ``ordinal`` is its place in the revision (chunk_index).
    ``page``, ``start`` and ``end`` are its place in the source, where it is known.
    """

    clause_id: str
    lineage_id: str
    ordinal: int
    kind: ClauseKind
    label: str
    text: str
    text_sha256: str
    number: ClauseNumber | None = None
    headings: tuple[str, ...] = ()
    parent_id: str | None = None
    page: int | None = None
    start: int | None = None
    end: int | None = None
    refs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One line of what a revision changed: labels before and after, and how alike the texts are (0..1)."""

    op: Literal["add", "delete", "modify", "renumber", "move"]
    before: str | None
    after: str | None
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One entry of a document's history. ``basis`` says whether its changes are the source's own words or a diff's."""

    date: str
    by: str
    action: Action
    instrument: str | None = None
    changes: tuple[Change, ...] = ()
    basis: Literal["stated_in_source", "computed_diff", "unknown"] = "unknown"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a revision came from. ``parser`` is name/version; ``charset`` the one that the bytes were read in."""

    url: str
    retrieved_at: str
    media_type: str
    raw_sha256: str
    parser: str
    charset: str | None = None
    licence: str | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision of one document, whole. Dates are ISO days. ``labels``: who has none of them cannot see it; without
    labels everybody can. ``extra`` is kept as given."""

    doc_id: str
    rev_id: str
    collection: str
    title: str
    lang: Literal["zh", "en"]
    kind: str
    valid_from: str
    source: Source
    clauses: tuple[Clause, ...]
    history: tuple[HistoryEntry, ...]
    content_sha256: str
    issuer: str | None = None
    promulgated_on: str | None = None
    effective_date: str | None = None
    effective_basis: Basis = "unknown"
    supersedes: str | None = None
    labels: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Belief:
    """One row of the two-axis table: ``rev_id`` holds on the days [valid_from, valid_to), and this was believed at the
    times [recorded_from, recorded_to). None is open. ``belief_id`` is the store's."""

    belief_id: int
    doc_id: str
    rev_id: str
    status: Status
    valid_from: str
    valid_to: str | None
    recorded_from: int
    recorded_to: int | None


@dataclass(frozen=True, slots=True)
class Opening:
    """A belief to be opened."""

    rev_id: str
    status: Status
    valid_from: str
    valid_to: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What one change does to one document, in one transaction: ``close`` names beliefs, ``open`` what is believed
    instead, ``add`` a revision that is new with ``raw``, the bytes it came from. ``purge``: revisions whose clauses
    leave every search arm at once (a delete); their rows stay for the record. ``seen`` is the number of the document's
    beliefs that the plan was made from: another number refuses it (``knowledge_conflict``)."""

    doc_id: str
    seen: int
    close: tuple[int, ...] = ()
    open: tuple[Opening, ...] = ()
    add: Revision | None = None
    raw: bytes | None = None
    purge: tuple[str, ...] = ()
    reason: Literal["ingested", "corrected", "repealed", "deleted", "redated"] = "ingested"


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document in lists, as believed now. ``rev_id`` is the revision that holds on the day asked for, or None with
    ``state`` saying why: ``not_yet`` (only later ones), ``ended`` (repealed or expired), ``deleted``."""

    doc_id: str
    collection: str
    title: str
    kind: str
    lang: str
    labels: tuple[str, ...]
    rev_id: str | None
    state: Literal["in_force", "not_yet", "ended", "deleted"]
    valid_from: str | None
    valid_to: str | None
    revisions: int
    clauses: int


@dataclass(frozen=True, slots=True)
class Eligible:
    """Which clauses a search may see; it acts before ranking. ``day`` is an ISO date, ``known_at`` microseconds (None:
    now). ``labels``: those that the caller has, None for all. ``langs``/``kinds``/``doc_ids`` empty: any."""

    day: str
    collections: tuple[str, ...] = ()
    known_at: int | None = None
    labels: frozenset[str] | None = None
    doc_ids: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    langs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredClause:
    """A clause with what a hit shows of its revision. ``key`` is the store's number of it, which the lexical index and
    vector indexes use; ``latest_rev`` is the document's revision that is latest by ``valid_from`` as believed then."""

    key: int
    clause: Clause
    doc_id: str
    rev_id: str
    collection: str
    title: str
    lang: str
    kind: str
    effective_date: str | None
    effective_basis: Basis
    revision_date: str | None
    valid_from: str
    valid_to: str | None
    latest_rev: str
    url: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LexicalHit:
    """``score``: higher is better (the negated value of SQLite's bm25())."""

    key: int
    score: float


class KnowledgeStore(Protocol):
    """One table for everybody; each method takes the Scope in whose tenant it acts. All writes are durable on return.

    Raises KnowledgeConflict (a stale plan, overlapping days, a revision id of another text) and changes nothing.
    """

    # -- writing
    async def commit(self, scope: Scope, plans: Sequence[Plan], at: int) -> int:
        """Carry out ``plans``, all or none; recorded at ``at`` or just after what was recorded last. Returns the
        outbox's head."""
        ...

    async def quarantine(self, scope: Scope, files: Sequence[Quarantined]) -> None:
        """Keep them listed; one name stands once, with its latest reason."""
        ...

    async def note_ingested(self, scope: Scope, files: Sequence[Ingested]) -> None:
        """Remember what files became, in the collections of their revisions; such a file is in quarantine no more."""
        ...

    async def ingested_below(self, scope: Scope, collection: str, prefix: str) -> list[Ingested]:
        """The files of a collection whose names begin with ``prefix``, by name."""
        ...

    async def forget_ingested(self, scope: Scope, collection: str, names: Sequence[str]) -> None:
        """What the files became stays; they are only not known any more."""
        ...

    # -- reading
    async def beliefs(self, scope: Scope, doc_id: str) -> list[Belief]:
        """All that was ever believed of a document, oldest first; empty for one that is not known."""
        ...

    async def revision(self, scope: Scope, rev_id: str) -> Revision | None:
        """A revision as it was ingested, whatever is believed of it now."""
        ...

    async def raw(self, scope: Scope, raw_sha256: str) -> bytes | None: ...

    async def documents(
        self, scope: Scope, eligible: Eligible, *, text: str | None = None, after: str | None = None, limit: int = 50
    ) -> tuple[list[DocumentRow], str | None]:
        """A page by doc_id, and where the next begins. Deleted documents are not among them; repealed ones are.
        ``eligible.day`` decides ``rev_id`` and ``state``, not whether a document is listed."""
        ...

    async def collections(self, scope: Scope, labels: frozenset[str] | None = None) -> list[tuple[str, int, int]]:
        """(name, documents, clauses) of each collection that holds something believed now that these labels see."""
        ...

    async def quarantined(self, scope: Scope, limit: int = 100) -> list[Quarantined]: ...

    async def ingested(self, scope: Scope, collection: str, name: str) -> Ingested | None: ...

    # -- searching
    async def lexical(self, scope: Scope, terms: Sequence[str], eligible: Eligible, limit: int) -> list[LexicalHit]:
        """The best clauses by BM25 that hold any of ``terms`` (as core.terms makes them, never query syntax)."""
        ...

    async def frequencies(self, scope: Scope, terms: Sequence[str]) -> tuple[int, dict[str, int]]:
        """How many clauses are indexed, and in how many each term stands."""
        ...

    async def articles(
        self, scope: Scope, titles: Sequence[str], article: int, sub: int, eligible: Eligible, limit: int
    ) -> list[int]:
        """Keys of clauses of this number; in documents with one of ``titles``, in any when there are none."""
        ...

    async def titles(self, scope: Scope) -> list[str]:
        """Titles of everything believed now; kept until something changes."""
        ...

    async def clauses(self, scope: Scope, keys: Sequence[int], eligible: Eligible) -> list[StoredClause]:
        """Those of ``keys`` that are eligible, in the order of ``keys``: what an index found is never shown unless it
        passes here."""
        ...

    async def clause(self, scope: Scope, clause_id: str) -> StoredClause | None:
        """A clause by its id, whatever is believed of it now (dates as of its latest belief)."""
        ...

    async def is_eligible(self, scope: Scope, clause_id: str, eligible: Eligible) -> bool: ...

    async def withheld(self, scope: Scope, eligible: Eligible) -> int:
        """How many clauses only the labels keep from the caller."""
        ...

    # -- following
    async def outbox(self, after: int, limit: int) -> list[OutboxRow]: ...
    async def changes(self, after: int, limit: int) -> list[ChangeRow]: ...
    async def head(self) -> int:
        """The outbox's last ``seq``, 0 when nothing was ever written."""
        ...

    async def recorded(self) -> int:
        """When anything was recorded last (microseconds, 0 for never): also later than a clock that was put back."""
        ...

    async def items(self, keys: Sequence[int]) -> list[IndexItem]:
        """What an index keeps of these clauses, by what is believed now; those not to be found now are left out."""
        ...

    async def all_keys(self, after: int, limit: int) -> list[int]:
        """Keys of all clauses that are believed now on some day, rising."""
        ...

    async def embeddings(self, embedder: str, shas: Sequence[str]) -> dict[str, bytes]:
        """Cached vectors (float32, little-endian) by ``embed_sha256``."""
        ...

    async def keep_embeddings(self, embedder: str, vectors: Mapping[str, bytes]) -> None: ...
    async def applied(self, follower: str) -> int:
        """How far a follower came (0 at first)."""
        ...

    async def set_applied(self, follower: str, seq: int) -> None: ...
    async def close(self) -> None: ...
