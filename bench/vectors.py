"""``python -m bench.vectors``: what searches of the vector indexes cost, what approximate search misses, and memory.

The vectors are the real ones of the knowledge bundle and, up to the size asked for, seeded near copies of them, as
revisions of statutes are: harder for approximate search than texts that differ. CPU is that of the worker process,
taken around each search in it. Progress on stderr; stdout ends in FIGURE lines.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

import numpy as np

from bench.child import ROOT
from bench.figures import Figure
from bench.machine import Others, conclude, progress, workplace
from devassist.ports.knowledge_store import IndexItem
from devassist.ports.vectors import VectorFilter
from devassist.vectors import wire
from devassist.vectors.chroma import ChromaIndex, why_unavailable
from devassist.vectors.exact import ExactIndex
from devassist.vectors.worker_index import WorkerIndex

KB = ROOT.parent / "shared" / "kb"
VERSION = "bench-1"
TODAY, ENDED, OPEN_END = 20260601, 20250101, 99991231
PARTS = ("exact", "chroma")
WANTED = {
    "day": VectorFilter(TODAY),
    "law": VectorFilter(TODAY, doc_ids=("law-7",)),
    "labels": VectorFilter(TODAY, labels=frozenset({"hr"})),
}


def real(place: Path, name: str) -> np.ndarray:
    with np.load(place / "zh_statutes" / f"embeddings_{name}.npz", allow_pickle=False) as file:
        return unit(file["vec"].astype(np.float32))


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("<f4")


def corpus(place: Path, count: int, spread: float) -> list[bytes]:
    """``count`` vectors: the shipped ones, then near copies (normal noise of ``spread`` on each number)."""
    shipped = np.concatenate((real(place, "pre"), real(place, "raw")))
    chance = np.random.default_rng(20261130)
    near = shipped[chance.integers(0, len(shipped), max(0, count - len(shipped)))]
    near = unit(near + chance.normal(0, spread, near.shape).astype(np.float32))
    return [row.tobytes() for row in np.concatenate((shipped, near))[:count]]


def clause(key: int) -> IndexItem:
    """One of five has ended, one of a hundred is of one law, one of ten is for some only."""
    return IndexItem(
        key=key, text_sha256="", valid_from=20100101, valid_to=ENDED if key % 5 == 0 else OPEN_END, lang="zh",
        collection="policies", doc_id=f"law-{key % 100}", kind="law", labels=("board",) if key % 10 == 3 else (),
        embed_text="", embed_sha256="",
    )  # fmt: skip


async def fill(index: WorkerIndex, vectors: Sequence[bytes]) -> None:
    await index.create(VERSION)
    for start in range(0, len(vectors), 5000):
        part = vectors[start : start + 5000]
        await index.upsert(VERSION, [clause(key) for key in range(start, start + len(part))], part)


async def searched(
    index: WorkerIndex, questions: Sequence[bytes], k: int, wanted: VectorFilter
) -> tuple[list[float], list[set[int]]]:
    """CPU milliseconds of each search, and what it found."""
    costs: list[float] = []
    found: list[set[int]] = []
    for asked in questions:
        header, _ = await index.child.ask(wire.look(VERSION, k, wanted), asked, urgent=True)
        costs.append(header["cpu_us"] / 1000)
        found.append({key for key, _ in header["hits"]})
    return costs, found


def p95(costs: Sequence[float]) -> float:
    return quantiles(costs, n=20)[-1]


def memory_mib(index: WorkerIndex, name: str) -> float:
    lines = Path(f"/proc/{index.child.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


def told(name: str, costs: Sequence[float]) -> str:
    return f"INFO {name} p50={median(costs):.2f}ms p95={p95(costs):.2f}ms most={max(costs):.2f}ms CPU"


async def exact_part(vectors: Sequence[bytes], questions: Sequence[bytes]) -> tuple[list[Figure], list[str]]:
    index, lines, figures = ExactIndex(), list[str](), list[Figure]()
    try:
        progress(f"exact: filling {len(vectors)}")
        await fill(index, vectors)
        await searched(index, questions[:20], 50, WANTED["day"])  # warm
        for name, wanted in WANTED.items():
            progress(f"exact: {len(questions)} searches, filter {name}")
            costs, _ = await searched(index, questions, 50, wanted)
            lines.append(told(f"vectors_exact_{name}", costs))
            if name == "day":
                figures.append(Figure(f"vectors_exact_cpu_p95_{len(vectors)}", p95(costs), 10, "ms"))
        figures.append(Figure("vectors_exact_memory", memory_mib(index, "VmRSS"), 160, "MiB", ".0f"))
        lines.append(f"INFO vectors_exact_memory_peak value={memory_mib(index, 'VmHWM'):.0f}MiB")
    finally:
        await index.close()
    return figures, lines


async def chroma_part(
    place: Path, vectors: Sequence[bytes], questions: Sequence[bytes]
) -> tuple[list[Figure], list[str]]:
    exact, chroma = ExactIndex(), ChromaIndex(place / "vectors", "bench/1")
    figures, lines = list[Figure](), list[str]()
    try:
        for index in (exact, chroma):
            progress(f"{index.kind}: filling {len(vectors)}")
            await fill(index, vectors)
        for name, wanted in (("all", VectorFilter(20200601)), *WANTED.items()):
            progress(f"chroma: {len(questions)} searches, filter {name}")
            _, true = await searched(exact, questions, 10, wanted)
            costs, found = await searched(chroma, questions, 10, wanted)
            recall = sum(len(a & b) for a, b in zip(true, found, strict=True)) / sum(map(len, true))
            figures.append(Figure(f"vectors_chroma_recall_at_10_{name}", recall, 0.99, "", ".4f", least=True))
            lines.append(told(f"vectors_chroma_{name}", costs))
        lines.append(f"INFO vectors_chroma_memory value={memory_mib(chroma, 'VmRSS'):.0f}MiB")
        disk = sum(file.stat().st_size for file in (place / "vectors").rglob("*") if file.is_file())
        lines.append(f"INFO vectors_chroma_disk value={disk / 2**20:.0f}MiB")
    finally:
        await exact.close()
        await chroma.close()
    return figures, lines


async def measure(place: Path, given: argparse.Namespace) -> tuple[list[Figure], list[str]]:
    questions = [row.tobytes() for row in real(given.kb, "queries_dev")][: given.questions]
    figures, lines = list[Figure](), list[str]()
    for part in given.only or PARTS:
        if part == "exact":
            found = await exact_part(corpus(given.kb, given.exact, given.spread), questions)
        else:
            found = await chroma_part(place, corpus(given.kb, given.chroma, given.spread), questions)
        figures += found[0]
        lines += found[1]
    return figures, lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.vectors", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be given again")
    parser.add_argument("--exact", type=int, default=58_827, help="clauses of the exact index")
    parser.add_argument("--chroma", type=int, default=20_000, help="clauses in Chroma")
    parser.add_argument("--questions", type=int, default=300, help="of each measurement")
    parser.add_argument("--spread", type=float, default=0.02, help="of the noise in near copies")
    parser.add_argument("--kb", type=Path, default=KB, help="the knowledge bundle")
    parser.add_argument("--dir", type=Path, help="where files of the measurement are made")
    given = parser.parse_args()
    if not (given.kb / "zh_statutes").is_dir():
        print(f"bench.vectors: the knowledge bundle is not at {given.kb}; say where with --kb", file=sys.stderr)
        return 1
    missing = why_unavailable()
    if missing and "chroma" in (given.only or PARTS):
        print(f"bench.vectors: {missing}; or leave it out with --only exact", file=sys.stderr)
        return 1
    others = Others()
    with workplace(given.dir) as place:
        figures, lines = asyncio.run(measure(place, given))
    print("\n".join(lines))
    conclude(others, [], [], figures, bearable=0.5, but=", so CPU per search reads too high")
    return 0


if __name__ == "__main__":
    sys.exit(main())
