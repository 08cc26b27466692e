"""Knowledge as a person reads it in a terminal, whatever language its texts have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from devassist.cli.output import clean, cut, indented, local_time, one_line, plural, table
from devassist.ports.curation import DiffLine, Document, IndexState, Ingestion
from devassist.ports.decision_log import Reliance
from devassist.ports.knowledge_store import Clause, DocumentRow, Quarantined, Revision
from devassist.ports.library import Answered, ClauseHit
from devassist.ports.rerun import Placed, Rerun
from devassist.runtime.knowledge_view import ClauseNow

_MOST_ROWS = 40
_LINE = 160
BASES = {
    "stated": "as the source states", "external_instrument": "given from outside",
    "assumed_promulgation": "assumed: the day it was issued", "unknown": "unknown: the day it came in",
}  # fmt: skip
_LEFT_OUT = {
    "off": "off", "scripts_differ": "query and documents are in other scripts",
    "not_ready": "its index is not complete",
    "failed": "failed", "no_reference": "the query names no article", "past": "knows the present only",
}  # fmt: skip
_STANDINGS = {
    "in_force": "it stands so today", "renumbered": "same text today, under another number",
    "changed": "changed since", "removed": "its document holds today without it",
    "not_in_force": "nothing holds in its place today",
}  # fmt: skip
_SIGNS = {"keep": " ", "add": "+", "delete": "-", "modify": "~", "renumber": "#", "move": ">"}


def ingested_text(done: Sequence[Ingestion]) -> str:
    """What changed, what could not be read, and the sums."""
    changed = [one for one in done if one.outcome in ("added", "amended", "corrected")]
    refused = [one for one in done if one.outcome == "quarantined"]
    parts: list[str] = []
    if changed:
        rows = [
            (one.outcome, one.rev_id or "", str(one.clauses), _changes(one), one.name) for one in changed[:_MOST_ROWS]
        ]
        parts.append(table(("OUTCOME", "REVISION", "CLAUSES", "CHANGES", "FILE"), rows))
        parts += [f"… and {len(changed) - _MOST_ROWS} more"] if len(changed) > _MOST_ROWS else []
    warned = [(one.name, warning) for one in done for warning in one.warnings]
    if warned:
        parts.append(table(("LOOK AT", "WARNING"), warned[:_MOST_ROWS]))
    if refused:
        parts.append("in quarantine:")
        parts += _refusals([(o.name, o.code or "", o.detail or "") for o in refused])
    sums = Counter(one.outcome for one in done)
    order = ("added", "amended", "corrected", "unchanged", "quarantined")
    parts.append(", ".join(f"{sums[name]} {name}" for name in order if sums[name]) or "nothing")
    return "\n".join(parts)


def _refusals(files: Sequence[tuple[str, str, str]]) -> list[str]:
    """Name, code and reason of files in quarantine; a reason is never cut."""
    return [f"{one_line(name)}  {code}\n{indented(why, '  ')}" for name, code, why in files]


def _changes(one: Ingestion) -> str:
    return ", ".join(f"{number} {name}" for name, number in (one.changes or {}).items() if number)


def list_text(rows: Sequence[DocumentRow]) -> str:
    return table(
        ("DOCUMENT", "COLLECTION", "STATE", "SINCE", "UNTIL", "REVISIONS", "CLAUSES", "LABELS", "TITLE"),
        [
            (
                row.doc_id, row.collection, row.state, row.valid_from or "", row.valid_to or "", str(row.revisions),
                str(row.clauses), ",".join(row.labels), row.title,
            )
            for row in rows
        ],
    )  # fmt: skip


def document_text(document: Document, *, full: bool) -> str:
    row, revision = document.row, document.revision
    lines = [f"{row.doc_id}  {clean(row.title)}", f"  {row.kind}, {row.lang}, collection {row.collection}"]
    if row.labels:
        lines.append(f"  only for {', '.join(row.labels)}")
    if revision is None:
        lines.append(f"  {'not yet in force' if row.state == 'not_yet' else 'no revision holds'} on that day")
    lines += ["", "believed"]
    shown = [
        (
            b.rev_id,
            b.valid_from,
            b.valid_to or "open",
            local_time(b.recorded_from),
            "now" if b.recorded_to is None else local_time(b.recorded_to),
        )
        for b in document.beliefs
    ]
    lines.append(indented(table(("REVISION", "HOLDS FROM", "UNTIL", "RECORDED", "BELIEVED UNTIL"), shown), "  "))
    if revision is not None:
        lines += ["", revision_text(revision, full=full)]
    return "\n".join(lines)


def revision_text(revision: Revision, *, full: bool) -> str:
    source = revision.source
    lines = [
        f"{revision.rev_id}  {clean(revision.title)}",
        f"  holds from  {revision.valid_from} ({BASES[revision.effective_basis]})",
        f"  source      {source.url}",
        f"  file        {source.media_type}, sha256 {source.raw_sha256[:16]}…, read by {source.parser}"
        f"{f' as {source.charset}' if source.charset else ''}",
    ]
    if revision.issuer:
        lines.append(f"  issued by   {clean(revision.issuer)}")
    lines += ["", "history"]
    for entry in revision.history:
        basis = {"computed_diff": ", changes computed here", "stated_in_source": ", changes stated in the source"}
        lines.append(f"  {entry.date}  {entry.action} by {one_line(entry.by)}{basis.get(entry.basis, '')}")
        lines += [f"    {_SIGNS[c.op]} {c.op} {_from_to(c.before, c.after)}" for c in entry.changes]
    lines += ["", plural(len(revision.clauses), "clause")]
    heading: tuple[str, ...] = ()
    for clause in revision.clauses:
        if clause.headings != heading and clause.headings:
            heading = clause.headings
            lines.append(f"  {clean(' > '.join(heading))}")
        lines += _clause_lines(clause, full=full)
    return "\n".join(lines)


def _clause_lines(clause: Clause, *, full: bool) -> list[str]:
    if full:
        return [f"    {clean(clause.label)}  #{clause.clause_id.partition('#')[2]}", indented(clause.text, "      ")]
    return [cut(f"    {clean(clause.label)}  {one_line(clause.text)}", _LINE)]


def clause_text(found: ClauseNow) -> str:
    clause, revision = found.clause, found.revision
    lines = [
        clean(" > ".join(dict.fromkeys((revision.title, *clause.headings, clause.label)))),
        f"  clause  {clause.clause_id}",
        f"  holds   from {revision.valid_from} ({BASES[revision.effective_basis]})",
        f"  sha256  {clause.text_sha256}", "", indented(clause.text, "  "), "",
        f"  today   {_STANDINGS[found.standing]}{'' if found.today is None else f': {found.today.clause_id}'}",
    ]  # fmt: skip
    if found.today is not None and found.standing == "changed":
        lines += ["", indented(found.today.text, "  ")]
    return "\n".join(lines)


def diff_text(lines: Sequence[DiffLine], *, every: bool) -> str:
    """Changes with both texts; clauses that were kept are counted, or listed with ``every``."""
    shown: list[str] = []
    counts = Counter[str]()
    for line in lines:
        op = "keep" if line.change is None else line.change.op
        counts[op] += 1
        before, after = line.before, line.after
        if op == "keep" and not every:
            continue
        names = _from_to(before and before.label, after and after.label)
        likeness = (
            "" if line.change is None or line.change.similarity is None else f"  {line.change.similarity:.0%} alike"
        )
        shown.append(f"{_SIGNS[op]} {op} {names}{likeness}")
        if op in ("modify", "delete") and before is not None:
            shown.append(indented(before.text, "  - "))
        if op in ("modify", "add") and after is not None:
            shown.append(indented(after.text, "  + "))
    sums = ", ".join(f"{number} {op}" for op, number in counts.items())
    return "\n".join([*shown, sums])


def _from_to(before: str | None, after: str | None) -> str:
    names = [clean(name) for name in dict.fromkeys((before, after)) if name is not None]
    return " -> ".join(names)


def search_text(found: Answered) -> str:
    lines: list[str] = []
    for rank, hit in enumerate(found.hits, 1):
        lines += _hit_lines(rank, hit)
    if not found.hits:
        lines.append(f"nothing found: {found.reason}")
    lines.append("")
    arms = [f"{arm.arm} {arm.found if arm.left_out is None else _left_out(arm.left_out)}" for arm in found.arms]
    lines.append(f"as of {found.as_of}; found by arm: {'; '.join(arms)}")
    if found.dense_asked and found.index_lag:
        lines.append(f"the vector index is {found.index_lag} changes behind the table")
    return "\n".join(lines)


def _left_out(code: str) -> str:
    return f"left out ({_LEFT_OUT.get(code, code)})"


def _hit_lines(rank: int, hit: ClauseHit) -> list[str]:
    why = ", ".join(f"{w.arm} #{w.rank}" for w in hit.why) or "by number"
    path = (hit.title, *hit.heading.split(" > "), hit.label)
    place = clean(" > ".join(part for part in dict.fromkeys(path) if part))
    since = f"from {hit.valid_from}" + (f" until {hit.valid_to}" if hit.valid_to else "")
    newer = "" if hit.latest_revision in ("", hit.rev_id) else f"; latest is {hit.latest_revision}"
    return [
        f"{rank}. {place}", f"   {hit.clause_id}  {since}{newer}", f"   score {hit.score:.4f}  {why}",
        indented(hit.text, "   ", most=4),
    ]  # fmt: skip


def quarantine_text(files: Sequence[Quarantined]) -> str:
    return "\n".join(
        line for f in files for line in _refusals([(f"{local_time(f.at)}  {f.collection}  {f.name}", f.code, f.detail)])
    )


def index_text(state: IndexState) -> str:
    if state.embedder is None:
        return "no vector index: DEVASSIST_EMBEDDER is none; search is lexical"
    ready = "complete" if state.ready and not state.lag else f"{state.lag} changes behind"
    fault = f"\nheld up: {clean(state.fault)}" if state.fault else ""
    return (
        f"{state.index} index {state.version}, embedder {state.embedder}: {plural(state.clauses, 'clause')}, {ready}"
        f"{fault}"
    )


def affected_text(rows: Sequence[Reliance]) -> str:
    return table(
        ("TIME", "TRACE", "USER", "AGENT", "STATE", "USED", "RANK", "CLAUSE"),
        [
            (
                local_time(row.at), row.trace_id, row.user_id or "(erased)", row.agent or "", row.state or "", row.used,
                "" if row.rank is None else str(row.rank), row.clause_id,
            )
            for row in rows
        ],
    )  # fmt: skip


def rerun_text(number: int, again: Rerun) -> str:
    """A recorded search beside today's."""
    rights = "everything" if again.labels is None else ", ".join(again.labels) or "no labels"
    lines = [
        f"search {number}: {one_line(again.query)}",
        f"  in {', '.join(again.collections)}; then as of {again.as_of}, known at {local_time(again.known_at)}; "
        f"now as of {again.day_now}; rights then and now: {rights}",
    ]
    if again.fault:
        lines.append(f"  refused today: {again.fault}")
    rows = [
        (_rank(side.recorded), _clause(side.recorded), _rank(side.now), _clause(side.now), side.cause or "")
        for side in again.sides
    ]
    if rows:
        lines.append(indented(table(("THEN", "RECORDED", "NOW", "TODAY", "CAUSE"), rows), "  "))
    else:
        lines.append("  nothing was found then, and nothing is found now")
    if again.equal:
        told = f"equal: all {plural(again.checked, 'recorded hit')} pass the filter of then ({again.rule}) again"
    else:
        told = f"NOT equal: the filter of then ({again.rule}) lets no more through: {', '.join(again.ineligible)}"
    return "\n".join([*lines, f"  eligibility as of then is {told}"])


def _rank(placed: Placed | None) -> str:
    return "-" if placed is None else str(placed.rank)


def _clause(placed: Placed | None) -> str:
    return "" if placed is None else placed.clause_id
