"""The cases of group D that are about vector indexes (tests/cases/group_d.jsonl)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import VectorsUnavailable
from devassist.ports.vectors import VectorFilter, VectorIndex
from devassist.testing.hashing import hashed
from devassist.testing.vectors_suite import NOW, filled, item, keys_of, text_of, vector
from devassist.vectors import wire
from devassist.vectors.chroma import ChromaIndex
from devassist.vectors.exact import ExactIndex
from tests.vectors.kit import EMBEDDER, require_chroma

FILE = Path(__file__).parents[1] / "cases" / "group_d.jsonl"


def case(name: str) -> dict[str, Any]:
    rows = (json.loads(line) for line in FILE.read_text("utf-8").splitlines())
    return next(row for row in rows if row["id"] == name)


@pytest.fixture(params=["exact", "chroma"])
async def index(request: pytest.FixtureRequest, tmp_path: Path, in_ci: bool) -> AsyncIterator[VectorIndex]:
    if request.param == "chroma":
        require_chroma(in_ci)
    index = ExactIndex() if request.param == "exact" else ChromaIndex(tmp_path, EMBEDDER)
    yield index
    await index.close()


async def test_d12_removed_clauses_do_not_eat_the_top_k(index: VectorIndex) -> None:
    """Of 30 chunks the ten nearest are removed, and a search for five finds five live ones."""
    await filled(index, [item(key) for key in range(30)])
    nearest = keys_of(await index.search("v1", vector(text_of(0)), 10, NOW))
    await index.remove("v1", nearest)
    hits = keys_of(await index.search("v1", vector(text_of(0)), 5, NOW))
    assert len(hits) == 5
    assert not set(hits) & set(nearest)


async def test_d25_a_changed_chunk_replaces_the_old_one(index: VectorIndex) -> None:
    """Under the same id the new text is found and the old one is not; the count is unchanged."""
    await index.create("v1")
    await index.upsert("v1", [item(1, text_sha256="0" * 64)], [vector("old")])
    await index.upsert("v1", [item(1, text_sha256="1" * 64)], [vector("new")])
    (found,) = await index.search("v1", vector("new"), 5, NOW)
    assert found.score == pytest.approx(1, abs=1e-4)
    (stale,) = await index.search("v1", vector("old"), 5, NOW)
    assert stale.score < 0.9
    assert await index.versions() == {"v1": 1}


async def test_d27_metadata_is_typed_and_filters_are_positive(index: VectorIndex, in_ci: bool) -> None:
    """A year as text is refused where years are numbers, empty lists and None pass; the filter that Chroma gets is one
    $and of what has to be there, without a negation."""
    await index.create("v1")
    years = [row["year"] for row in case("D27")["input"]["metadata"]]
    assert [type(year) for year in years] == [int, str]
    await index.upsert("v1", [item(1, valid_from=years[0] * 10_000 + 101, labels=(), kind=None)], [vector("x")])
    with pytest.raises(VectorsUnavailable, match="valid_from"):
        await index.upsert("v1", [item(2, valid_from=years[1] + "0101")], [vector("x")])
    require_chroma(in_ci)
    from devassist.vectors.chroma_versions import where

    wanted = VectorFilter(20260601, ("a",), ("b",), ("law",), ("zh",), frozenset({"hr"}))
    condition = where(wire.look("v1", 5, wanted), ["[]", '["hr"]', '["board"]'])
    assert list(condition) == ["$and"]
    used = {operator for clause in condition["$and"] for test in clause.values() for operator in test}
    assert used == {"$lte", "$gt", "$in"}
    assert {"access": {"$in": ["[]", '["hr"]']}} in condition["$and"]


@pytest.mark.parametrize(("embedder", "dimension"), [("one/1", 768), ("another/1", 384)])
async def test_d28_another_model_is_noticed(tmp_path: Path, in_ci: bool, embedder: str, dimension: int) -> None:
    """An index of 384 numbers asked with another model, or with vectors of 768: refused by names and numbers, and
    nothing of the new model enters the old collection."""
    require_chroma(in_ci)
    index = ChromaIndex(tmp_path, "one/1")
    await index.create("v1")
    await index.upsert("v1", [item(1)], [hashed("x", 384)])
    await index.close()
    index = ChromaIndex(tmp_path, embedder)
    asked = hashed("x", dimension)
    told = "of 384 numbers, not of 768" if embedder == "one/1" else "'one/1'.*'another/1'"
    try:
        for call in (index.search("v1", asked, 5, NOW), index.upsert("v1", [item(2)], [asked])):
            with pytest.raises(VectorsUnavailable, match=told):
                await call
        assert await index.versions() == {"v1": 1}
    finally:
        await index.close()
