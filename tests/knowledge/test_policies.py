"""The policy library over files: days, relevance, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import CallerError
from devassist.core.scope import Scope
from devassist.core.tooling import ToolResult
from devassist.knowledge.policy_dir import SAMPLES_DIR
from devassist.knowledge.search import TableLibrary
from devassist.ports.library import RELEVANCE_THRESHOLD, Library
from devassist.ports.tools import CallContext
from devassist.tools.get_policy import get_policy_tool
from devassist.tools.registry import ToolRegistry
from tests import kb
from tests.knowledge.questions import ABOUT_SAMPLES, UNRELATED
from tests.knowledge.shelf import Shelf, fill, shelf

SCOPE = Scope("default", "local")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("samples")
    asyncio.run(fill(place, SAMPLES_DIR))
    return place


@pytest.fixture
async def samples(filled: Path) -> AsyncGenerator[Shelf]:
    async with shelf(filled) as books:
        yield books


@asynccontextmanager
async def library(place: Path, *assets: dict[str, Any]) -> AsyncGenerator[Shelf]:
    directory = kb.write_policy_dir(place / "policies", list(assets))
    await fill(place, directory)
    async with shelf(place) as books:
        yield books


def refund(text: str, valid_from: str, valid_to: str | None = None, **fields: Any) -> dict[str, Any]:
    return kb.make_asset("refund", "退货规则", [("第一条", text)], valid_from=valid_from, valid_to=valid_to, **fields)


def test_it_fits_the_port(samples: Shelf) -> None:
    """A search over the table is a Library."""
    port: Library = samples.library
    assert isinstance(port, TableLibrary)


async def test_as_of_chooses_the_revision_by_half_open_intervals(tmp_path: Path) -> None:
    """The revision of the day is found and only it, though an older one fits the words better; before all, none."""
    old = refund("退货期限为七天。退货 退货 退货期限。", "2024-01-01", "2025-07-01")
    async with library(tmp_path, old, refund("退货期限为十五天。", "2025-07-01")) as found:
        for as_of, text in ((None, "十五"), ("2025-06-30", "七天"), ("2025-07-01", "十五"), ("2024-01-01", "七天")):
            assert [text in hit.text for hit in await found.policies("退货期限", as_of=as_of)] == [True]
        assert await found.policies("退货期限", as_of="2023-12-31") == []
        assert await found.library.best_score(SCOPE, "退货期限") == 1.0


async def test_today_is_asked_for_at_every_search(tmp_path: Path) -> None:
    """A process that runs over midnight follows the day."""
    first, second = refund("甲方退货。", "2024-01-01", "2025-07-01"), refund("乙方退货。", "2025-07-01")
    async with library(tmp_path, first, second) as found:
        for day, text in (("2025-06-30", "甲方退货。"), ("2025-07-01", "乙方退货。")):
            found.clock.day = day
            assert [hit.text for hit in await found.policies("退货")] == [text]


async def test_drafts_and_corrected_revisions_are_not_found(tmp_path: Path) -> None:
    """Only what is published and still believed can be found, on any day."""
    async with library(
        tmp_path,
        refund("退货草案。", "2020-01-01", status="draft"),
        refund("退货旧文。", "2021-01-01", recorded_to="2025-01-01T00:00:00Z"),
        kb.make_asset("other", "其他", [("第一条", "运费。")]),
    ) as found:
        assert await found.policies("退货") == []


async def test_the_library_follows_its_directory(tmp_path: Path) -> None:
    """A second start does nothing; a file that is gone takes its document along, one that is back brings it."""
    files = [refund("退货期限为七天。", "2024-01-01"), kb.make_asset("other", "其他", [("第一条", "运费自理。")])]
    async with library(tmp_path, *files) as found:
        head = await found.store.head()
    async with library(tmp_path, *files) as found:
        assert await found.store.head() == head
    gone = tmp_path / "policies" / "refund@2024-01-01.json"
    gone.unlink()
    async with library(tmp_path, files[1]) as found:
        assert await found.policies("退货期限") == []
        assert len(await found.policies("运费自理")) == 1
    async with library(tmp_path, *files) as found:
        assert len(await found.policies("退货期限")) == 1


async def test_a_hit_carries_identity_wording_dates_and_source(samples: Shelf) -> None:
    """Every field of a hit comes from the file: ids, label, canonical text, both dates, the source's address."""
    (hit, *_) = await samples.policies("退休人员门诊慢特病的报销比例是多少？")
    assert hit.rev_id == "yunze-outpatient-chronic@2025-07-01"
    assert hit.clause_id == f"{hit.rev_id}#art-7"
    assert (hit.label, hit.effective_date, hit.revision_date) == ("第七条", "2025-07-01", "2025-05-20")
    assert hit.text == "退休人员门诊慢特病的报销比例为85%，年满70周岁的退休人员再提高3个百分点。"
    assert hit.source == "https://policies.yunze.example/yunze-outpatient-chronic/2025-07-01"


async def test_the_retirees_clause_leads_clearly(samples: Shelf) -> None:
    """The first journey's question has one right clause, and the tool's score leads by more than half."""
    tool = get_policy_tool(samples.library)
    outcome = await ToolRegistry([tool]).call(
        SCOPE, "get_policy", {"question": "退休人员门诊慢特病的报销比例是多少？"}, CallContext("t", "c", 1, 1)
    )
    assert isinstance(outcome, ToolResult)
    first, second = outcome.value["matches"][:2]
    assert first["score"] > 1.5 * second["score"]


@pytest.mark.parametrize(("question", "doc_id", "label"), ABOUT_SAMPLES)
async def test_lay_questions_find_their_sample_clause(samples: Shelf, question: str, doc_id: str, label: str) -> None:
    """A lay question about the samples is relevant, and its clause comes first."""
    assert await samples.library.best_score(SCOPE, question) >= RELEVANCE_THRESHOLD
    hits = await samples.policies(question, top_k=1)
    assert [(hit.doc_id, hit.label) for hit in hits] == [(doc_id, label)]


@pytest.mark.parametrize("question", UNRELATED)
async def test_unrelated_questions_find_nothing_in_the_samples(samples: Shelf, question: str) -> None:
    """What the samples say nothing of gives no clause, and a score below the threshold."""
    assert await samples.policies(question, top_k=20) == []
    assert await samples.library.best_score(SCOPE, question) < RELEVANCE_THRESHOLD


async def test_a_reference_is_served_exactly(samples: Shelf) -> None:
    """A document's name and an article give that clause; an article that does not exist gives nothing."""
    (hit,) = await samples.policies("生育保险待遇规定第三条")
    assert (hit.doc_id, hit.label) == ("yunze-maternity", "第三条")
    assert await samples.policies("生育保险待遇规定第九十条") == []


@pytest.mark.parametrize("query", ["", "   ", "？", "\u3000", '"', "*", "(("])
async def test_a_blank_query_is_refused_with_a_reason(samples: Shelf, query: str) -> None:
    """A query without a letter or digit raises CallerError blank_query; its best score is nought."""
    with pytest.raises(CallerError) as caught:
        await samples.policies(query)
    assert caught.value.code == "blank_query"
    assert await samples.library.best_score(SCOPE, query) == 0.0


@pytest.mark.parametrize("query", ["AND OR NOT", "a' OR 1=1 --", "%", "是多少？", "\ud800 门诊", "门诊\0"])
async def test_odd_queries_are_text_like_any_other(samples: Shelf, query: str) -> None:
    """Operators of search languages, stop words and broken characters give a list and never the whole library."""
    hits = await samples.policies(query + " x", top_k=1000)
    assert len(hits) < 60


async def test_a_day_that_is_none_is_refused(samples: Shelf) -> None:
    """as_of must be YYYY-MM-DD and exist."""
    for as_of in ("2025-02-29", "20250101", "today", ""):
        with pytest.raises(CallerError) as caught:
            await samples.policies("门诊", as_of=as_of)
        assert caught.value.code == "invalid_date"


async def test_relevance_does_not_depend_on_how_many_are_asked_for(samples: Shelf) -> None:
    """top_k cuts the list and decides nothing else."""
    many = await samples.policies("门诊 报销 比例", top_k=20)
    assert await samples.policies("门诊 报销 比例", top_k=1) == many[:1]
    assert len(many) > 5


async def test_loading_names_the_file_that_is_wrong(tmp_path: Path) -> None:
    """A directory is never followed in part: one wrong file stops it, named, and nothing is changed."""
    kb.write_policy_dir(tmp_path / "policies", [refund("退货。", "2024-01-01")])
    (tmp_path / "policies" / "broken.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CallerError, match=r"broken\.json"):
        await fill(tmp_path, tmp_path / "policies")
    async with shelf(tmp_path) as found:
        assert await found.store.head() == 0
