"""Chroma as a vector index: in a directory of ours, or a server. Either way its client runs in a process of its own,
which costs about 130 MB more than the service has."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from devassist.core.errors import VectorsUnavailable
from devassist.vectors.child import Program
from devassist.vectors.worker_index import WorkerIndex

PACKAGE = "chromadb"
_MISSING = (
    "The package chromadb is not installed: 'make chroma' (or 'pip install devassist[chroma]') brings it; or set "
    "DEVASSIST_VECTORS to exact"
)


def why_unavailable() -> str | None:
    """What keeps Chroma from working here, with the way out; None when nothing does."""
    try:
        version(PACKAGE)
    except PackageNotFoundError:
        return _MISSING
    return None


class ChromaIndex(WorkerIndex):
    """See ``devassist.ports.vectors.VectorIndex``. Every version is a collection of its own.

    ``place`` is the directory, or the address of a server (``http://127.0.0.1:8000``). ``embedder`` is the name of what
    makes the vectors: it is kept with each version, and a version of another one is neither searched nor added to,
    though it is listed and can be dropped. ``space`` keeps those apart who share a server. Raises VectorsUnavailable
    at once where the package is not installed.
    """

    def __init__(self, place: Path | str, embedder: str, *, space: str = "devassist") -> None:
        missing = why_unavailable()
        if missing:
            raise VectorsUnavailable(missing)
        where = {"url": place} if isinstance(place, str) else {"path": str(place.absolute())}
        super().__init__(
            Program(
                worker="devassist.vectors.chroma_worker",
                what=f"Chroma at {place}" if isinstance(place, str) else "Chroma",
                fault=VectorsUnavailable,
                settings={**where, "embedder": embedder, "space": space},
                environment={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ANONYMIZED_TELEMETRY": "False"},
            )
        )

    @property
    def kind(self) -> str:
        return "chroma"
