"""``restore``: a backup is checked whole before anything is touched, put in place, and said to be held.

Nothing of what was there is destroyed: it is moved aside, and read once more for what the report says of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NamedTuple

from devassist.core.errors import DataDirInUse, JournalCorrupt
from devassist.core.ids import time_of
from devassist.core.lineage import Place, Rewind, lost
from devassist.core.scope import SYSTEM, Scope
from devassist.ports.backup import Backups, Manifest, Present, Staged
from devassist.ports.clock import Clock
from devassist.ports.journal import StreamKind
from devassist.runtime.erasure import Reapplied, reapply
from devassist.runtime.held import Resumed, open_runs, utc
from devassist.runtime.services import Services

Opened = Callable[[Path | None], AbstractAsyncContextManager[Services]]
"""Services that drive nothing: on a journal that stands apart, or (None) on the data directory's own."""
_NOTED: tuple[StreamKind, ...] = ("erasure", "deploy")


class Restored(NamedTuple):
    """``report`` is what stands in the file ``path``; ``resumed`` is None while the directory stays held."""

    report: dict[str, Any]
    path: Path
    resumed: Resumed | None


async def restore(
    files: Backups, opened: Opened, clock: Clock, scope: Scope, source: Path, *, resume: bool
) -> Restored:  # fmt: skip
    """Put the backup in ``source`` in place of what is there. Raises DataDirInUse, InvalidRequest, JournalCorrupt,
    Unavailable; until the files are exchanged a failure leaves all as it was, and after that a held directory."""
    with files.locked():
        staged = await files.stage(source)
        try:
            open_then = await _verified(opened, staged)
            present = await files.present(staged)
            rewind = _rewind(staged.manifest.place, await files.remembered(), present.place, clock)
            replaced = await files.swap(staged, rewind)
        except BaseException:  # Ctrl-C too leaves all as it was
            await files.discard(staged)
            raise
        async with opened(None) as services:
            erasures = await reapply(services.vault, services.journal, services.heads, clock)
            mark = await services.hold.pending() or rewind
            await services.hold.record(scope, mark)
            resumed = await services.hold.resume(scope) if resume else None
        report = _report(source, staged.manifest, mark, present, open_then, replaced, erasures)
        report["held"] = resumed is None
        return Restored(report, await files.report(report), resumed)


async def resume(files: Backups, opened: Opened, scope: Scope) -> Resumed | None:
    """Go on from a rewind, beside a held server or without one; None where nothing is held. A rewind that no start has
    noticed yet is noticed here, unless somebody drives the directory, which would have."""
    try:
        with files.locked():
            async with opened(None) as services:
                rewind = await services.hold.notice()
            if rewind is None:
                return None
            await files.clear_derived()
            async with opened(None) as services:
                return await services.hold.resume(scope)
    except DataDirInUse:
        async with opened(None) as services:
            return await services.hold.resume(scope) if await services.hold.pending() else None


async def _verified(opened: Opened, staged: Staged) -> list[tuple[str, str]]:
    """The open runs of a staged journal, (trace id, state), each of which verifies; so do the streams that restoring
    appends to. Raises JournalCorrupt naming the row."""
    found: list[tuple[str, str]] = []
    async with opened(staged.journal) as services:
        noted = [head for kind in _NOTED for head in await services.heads.streams(SYSTEM, kind)]
        for head in noted:
            await _verify(services, head.stream)
        async for page in open_runs(services.heads):
            for head in page:
                await _verify(services, head.stream)
                found.append((head.stream.hex(), head.state or ""))
    return found


async def _verify(services: Services, stream: bytes) -> None:
    report = await services.auditor.verify(SYSTEM, stream)
    if not report.ok:
        fault = report.faults[0]
        raise JournalCorrupt(f"the backup does not verify, so nothing was restored: {fault.row}: {fault.problem}")


def _rewind(backup: Place, remembered: Place | None, present: Place | None, clock: Clock) -> Rewind:
    """The lost window ends where the journal is last known to have stood."""
    ends = [place for place in (remembered, present) if place is not None]
    latest = max(ends, key=lambda place: place.at, default=None)
    new = clock.random(16).hex()
    return lost("restored", latest, backup, since=None, noticed=clock.now_us(), incarnation=new)


def _report(
    source: Path, manifest: Manifest, rewind: Rewind, present: Present, open_then: list[tuple[str, str]],
    replaced: Path | None, erasures: Reapplied,
) -> dict[str, Any]:  # fmt: skip
    return {
        "backup": {
            "directory": str(source), "made_at": utc(manifest.made_at), "product": manifest.product,
            "runs": manifest.runs, "incarnation": manifest.place.incarnation,
        },
        "window": {
            "from": utc(rewind.window_from), "to": utc(rewind.window_to), "from_us": rewind.window_from,
            "to_us": rewind.window_to, "end_known": rewind.known,
        },
        "incarnation": rewind.incarnation,
        "replaced": None if replaced is None else str(replaced),
        "open_runs": [_open_run(trace_id, state, present) for trace_id, state in open_then],
        "lost_runs": {
            "known": present.readable,
            "count": len(present.lost) if present.readable else None,
            "runs": [
                {"trace_id": run.trace_id, "begun_at": utc(time_of(bytes.fromhex(run.trace_id))),
                 "state": run.state, "idempotency_key_digest": run.idem}
                for run in present.lost
            ],
        },
        "erasures": {"keys_destroyed_again": erasures.destroyed, "recorded_again": erasures.recorded},
    }  # fmt: skip


def _open_run(trace_id: str, state: str, present: Present) -> dict[str, Any]:
    """A run that was open at the backup, with what the replaced journal says that it did since: null where nothing is
    known, for whoever decides on its ``once`` calls."""
    later = (present.later or {}).get(trace_id)
    if later is None:
        return {"trace_id": trace_id, "state": state, "later_state": None, "once_calls_since": None}
    calls = [{"tool": tool, "at": utc(at), "outcome": outcome} for tool, at, outcome in later.once]
    return {"trace_id": trace_id, "state": state, "later_state": later.state, "once_calls_since": calls}
