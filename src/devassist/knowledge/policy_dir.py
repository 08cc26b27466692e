"""The policy directory: its files are the collection ``policies``, and stay so when the directory changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import orjson

from devassist.core.scope import TENANT, Scope
from devassist.knowledge.assets import load_directory
from devassist.knowledge.ingesting import Ingester
from devassist.knowledge.parsing.document import ParsedDocument, Quarantine
from devassist.knowledge.timeline import believed, plan_delete
from devassist.ports.clock import Clock
from devassist.ports.curation import Given, Incoming
from devassist.ports.knowledge_store import KnowledgeStore, Plan
from devassist.ports.library import POLICIES

log = logging.getLogger("devassist.knowledge")

SAMPLES_DIR = Path(__file__).with_name("samples")
"""The packaged sample policies of an invented province."""
PREFIX = "policy-dir/"
"""What the names of these files begin with, so that no other file is taken for one of them."""
KEEPER = Scope(TENANT, "system", frozenset({"admin"}))


class _Assets:
    """Reads knowledge assets that were checked before."""

    async def parse(self, data: bytes, name: str) -> ParsedDocument | Quarantine:
        asset = orjson.loads(data)
        return ParsedDocument(
            asset["title"], asset["lang"], asset["kind"], (), "asset/1", "application/json", asset=asset
        )

    async def close(self) -> None:
        """Nothing to release."""


async def follow_directory(store: KnowledgeStore, directory: Path, clock: Clock, *, today: Callable[[], str]) -> None:
    """Bring in every published asset that is new or changed, and delete what came from files that are no longer there.

    A second call finds nothing to do. Raises ConfigInvalid for a directory without files, AssetInvalid for a file that
    is wrong: then nothing is changed.
    """
    files, kept = await asyncio.to_thread(_read, directory)

    async def commit(scope: Scope, plan: Plan) -> None:
        await store.commit(scope, [plan], clock.now_us())

    known = await store.ingested_below(KEEPER, POLICIES, PREFIX)
    gone = [file for file in known if file.name not in files]
    for doc_id in sorted({file.rev_id.partition("@")[0] for file in gone}):
        beliefs = await store.beliefs(KEEPER, doc_id)
        named = {file.rev_id for file in gone}
        # A revision that is missing from a document that is still there takes the whole document along: what is there
        # is brought in again below, with the intervals that it has without it.
        if believed(beliefs) and (doc_id not in kept or any(b.rev_id in named for b in believed(beliefs))):
            await commit(KEEPER, plan_delete(beliefs, doc_id))
    await store.forget_ingested(KEEPER, POLICIES, [file.name for file in gone])
    ingester = Ingester(store, _Assets(), clock, today=today, commit=commit)
    incoming = [Incoming(name, data) for name, data in files.items()]
    async for outcome in ingester.ingest(KEEPER, incoming, Given(POLICIES)):
        if outcome.outcome == "quarantined":
            log.error("%s was not brought in: %s", outcome.name, outcome.detail)


def _read(directory: Path) -> tuple[dict[str, bytes], set[str]]:
    """The published files by their names here, and the documents that they are of."""
    assets = load_directory(directory)
    shown = {asset.rev_id: asset.doc_id for asset in assets if asset.status == "published" and asset.believed}
    files: dict[str, bytes] = {}
    for path in sorted(directory.rglob("*.json")):
        data = path.read_bytes()
        if orjson.loads(data)["rev_id"] in shown:
            files[PREFIX + path.relative_to(directory).as_posix()] = data
    return files, set(shown.values())
