"""Documents come in, change, end and go, and every search tells the truth about it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from devassist.core.errors import CallerError, CollectionNotFound, DocumentNotFound, Forbidden, RevisionNotFound
from devassist.core.scope import TENANT, Scope
from devassist.knowledge.assets import parse_asset
from devassist.knowledge.parsing.document import ParsedDocument
from devassist.knowledge.parsing.parse import parse
from tests.kb import KB, make_asset, need_bundle
from tests.knowledge.shelf import ADMIN, Shelf, shelf

RULES = """# 云泽省临时救助办法

（2023年8月1日云泽省人民政府公布，自2023年9月1日起施行）

第一条 为保障困难群众的基本生活，制定本办法。

第二条 临时救助标准为每人每月{amount}元，由县级民政部门发放。

第三条 申请人应当向户籍所在地乡镇人民政府提出书面申请。
"""
READER = Scope(TENANT, "reader")


@pytest.fixture
async def books(tmp_path: Path) -> AsyncGenerator[Shelf]:
    async with shelf(tmp_path) as found:
        yield found


async def test_the_same_file_twice_does_nothing(books: Shelf) -> None:
    """The second ingestion of an unchanged file opens no belief and writes no row to the outbox."""
    first = await books.put("relief.md", RULES.format(amount=800))
    head = await books.store.head()
    second = await books.put("relief.md", RULES.format(amount=800))
    renamed = await books.put("copy.md", RULES.format(amount=800))
    assert (first.outcome, second.outcome, renamed.outcome) == ("added", "unchanged", "unchanged")
    assert second.rev_id == renamed.rev_id == first.rev_id
    assert await books.store.head() == head


async def test_an_amendment_is_one_new_revision(books: Shelf) -> None:
    """An amended file gives one revision more, and the belief that the old one holds for ever is closed."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    amended = await books.put("relief-2025.md", RULES.format(amount=950), effective="2025-07-01")
    assert (amended.outcome, amended.changes) == ("amended", {"keep": 2, "modify": 1})
    beliefs = await books.store.beliefs(ADMIN, amended.doc_id or "")
    assert [(b.valid_from, b.valid_to, b.recorded_to is None) for b in beliefs] == [
        ("2023-09-01", None, False),
        ("2023-09-01", "2025-07-01", True),
        ("2025-07-01", None, True),
    ]


@pytest.mark.parametrize(
    ("day", "amount"), [("2025-06-30", "800"), ("2025-07-01", "950"), ("2025-07-02", "950"), ("2023-09-01", "800")]
)
async def test_a_question_is_answered_as_of_its_day(books: Shelf, day: str, amount: str) -> None:
    """The day before an amendment the old text is found and not the new one, from its day on the new one alone."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    await books.put("relief.md", RULES.format(amount=950), effective="2025-07-01")
    found = [text for text in await books.texts("临时救助标准", as_of=day) if "标准为" in text]
    assert found == [f"临时救助标准为每人每月{amount}元，由县级民政部门发放。"]


async def test_before_the_first_version_nothing_is_in_force(books: Shelf) -> None:
    """As of a day before its first adoption a document has no version in force, which is what the search says."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    answered = await books.ask("临时救助标准", as_of="2020-01-01")
    assert (answered.hits, answered.reason) == ((), "no_version_in_force")


async def test_a_future_revision_waits_for_its_day(books: Shelf) -> None:
    """A revision that is not yet in force is invisible today and found as of a later day."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    await books.put("relief.md", RULES.format(amount=1200), effective="2030-01-01")
    assert not any("1200" in text for text in await books.texts("临时救助标准"))
    assert any("1200" in text for text in await books.texts("临时救助标准", as_of="2030-01-01"))


async def test_a_repeal_ends_a_document_and_keeps_its_past(books: Shelf) -> None:
    """After its repeal a document is not found, and as of a day before it still is."""
    put = await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    await books.curator.repeal(ADMIN, put.doc_id or "", "2025-01-01")
    assert await books.texts("临时救助标准") == []
    assert await books.texts("临时救助标准", as_of="2024-12-31")
    (row,), _ = await books.curator.documents(ADMIN)
    assert (row.state, row.rev_id) == ("ended", None)


async def test_an_old_answer_is_found_again_by_what_was_known(books: Shelf) -> None:
    """After a correction, a search with the time of knowledge of before finds the text of before, byte for byte."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    before = await books.ask("临时救助标准")
    corrected = await books.put("relief.md", RULES.format(amount=880), effective="2023-09-01")
    assert (corrected.outcome, (corrected.rev_id or "")[-2:]) == ("corrected", ".1")
    again = await books.ask("临时救助标准", known_at=before.known_at)
    assert [(h.clause_id, h.text) for h in again.hits] == [(h.clause_id, h.text) for h in before.hits]
    assert any("880" in text for text in await books.texts("临时救助标准"))


async def test_a_deleted_document_is_gone_from_every_search(books: Shelf) -> None:
    """What was deleted is found by no query, day or time of knowledge; brought in again, it is found again."""
    put = await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    known = (await books.ask("临时救助标准")).known_at
    await books.curator.delete(ADMIN, put.doc_id or "")
    assert await books.texts("临时救助标准") == await books.texts("临时救助标准", known_at=known) == []
    with pytest.raises(DocumentNotFound):
        await books.curator.delete(ADMIN, put.doc_id or "")
    again = await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    assert again.outcome == "added"
    assert any("标准为" in text for text in await books.texts("临时救助标准"))


async def test_of_two_copies_one_can_be_deleted(books: Shelf) -> None:
    """Two documents of one text are two: deleting one leaves the other to be found, and cited by its own name."""
    text = "# Fees\n\nThe zebra-fee is 12 EUR.\n"
    first, second = await books.put("a/fees.md", text, "docs"), await books.put("b/fees.md", text, "docs")
    await books.curator.delete(ADMIN, first.doc_id or "")
    answered = await books.ask("zebra-fee", "docs")
    assert {hit.doc_id for hit in answered.hits} == {second.doc_id}
    await books.curator.delete(ADMIN, second.doc_id or "")
    assert (await books.ask("zebra-fee", "docs")).hits == ()


async def test_a_shorter_revision_leaves_nothing_of_the_longer_one(books: Shelf) -> None:
    """Sections that a new revision no longer has are not found any more, and are as of the day before."""
    long = (
        "# Rules\n\n"
        + "".join(f"## Section {n}\n\nText of part {n}.\n\n" for n in range(1, 6))
        + "## Six\n\nzebra-fee\n"
    )
    await books.put("rules.md", long, "docs", effective="2024-01-01")
    await books.put("rules.md", "# Rules\n\n## Section 1\n\nText of part 1.\n", "docs", effective="2025-01-01")
    assert (await books.ask("zebra-fee", "docs")).hits == ()
    assert len((await books.ask("zebra-fee", "docs", as_of="2024-12-31")).hits) == 1


async def test_what_cannot_be_read_is_set_aside_with_a_reason(books: Shelf) -> None:
    """A file without any text becomes no document; it is listed with the reason until it comes in well."""
    outcome = await books.put("empty.md", "\n\n", "docs")
    assert (outcome.outcome, outcome.code) == ("quarantined", "empty")
    (listed,) = await books.curator.quarantined(ADMIN)
    assert (listed.name, listed.code) == ("empty.md", "empty")
    await books.put("empty.md", "# Now\n\nThere is a text.\n", "docs")
    assert await books.curator.quarantined(ADMIN) == []


async def test_labels_open_documents_to_those_who_have_one(books: Shelf) -> None:
    """Who lacks a document's labels cannot find, list or read it, nor tell that it exists."""
    put = await books.put("pay.md", "# Pay\n\nThe bonus is 4000 EUR.\n", "docs", labels=("hr",))
    clerk = Scope(TENANT, "clerk", labels=frozenset({"hr", "it"}))
    assert len((await books.ask("bonus", "docs", clerk)).hits) == 1
    answered = await books.ask("bonus", "docs", READER)
    assert (answered.hits, answered.reason, answered.withheld) == ((), "collection_empty", 1)
    assert (await books.curator.documents(READER))[0] == []
    for refused in (books.curator.document(READER, put.doc_id or ""), books.curator.document(READER, "docs.none")):
        with pytest.raises(DocumentNotFound):
            await refused
    with pytest.raises(RevisionNotFound):
        await books.curator.revision(READER, put.rev_id or "")
    with pytest.raises(CollectionNotFound):
        await books.ask("bonus", "secret", READER)


async def test_only_administrators_change_anything(books: Shelf) -> None:
    """A user who may read may neither bring in, repeal nor delete."""
    put = await books.put("relief.md", RULES.format(amount=800))
    for refused in (
        books.curator.repeal(READER, put.doc_id or "", "2025-01-01"),
        books.curator.delete(READER, put.doc_id or ""),
        books.curator.reindex(READER),
    ):
        with pytest.raises(Forbidden):
            await refused


@pytest.mark.parametrize("query", ["", "   ", "？", "\u3000", '"'])
async def test_a_query_without_a_word_is_refused(books: Shelf, query: str) -> None:
    """Empty, blank and punctuation-only queries are refused with a reason."""
    with pytest.raises(CallerError) as refused:
        await books.ask(query)
    assert refused.value.code == "blank_query"


@pytest.mark.parametrize("query", ["AND OR NOT", "*x", "a' OR 1=1 --", "((x", "NEAR(a b)", "x*", "col:x"])
async def test_operators_are_words(books: Shelf, query: str) -> None:
    """Query syntax of the index is text like any other, and never opens the whole collection."""
    await books.put("relief.md", RULES.format(amount=800))
    assert len((await books.ask(query)).hits) == 0


async def test_every_export_is_a_valid_asset_that_comes_in_unchanged(books: Shelf, tmp_path: Path) -> None:
    """What is exported fits the schema, and a library that takes it in exports the same."""
    await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    await books.put("relief.md", RULES.format(amount=950), effective="2025-07-01")
    exported = [asset async for asset in books.curator.export(ADMIN)]
    assert [parse_asset(asset, "export").rev_id for asset in exported] == [asset["rev_id"] for asset in exported]
    (tmp_path / "other").mkdir()
    async with shelf(tmp_path / "other") as other:
        for asset in reversed(exported):
            outcome = await other.put(f"{asset['rev_id']}.json", json.dumps(asset))
            assert outcome.outcome in ("added", "amended"), outcome
        again = [asset async for asset in other.curator.export(ADMIN)]
    times = ("recorded_from", "recorded_to")
    assert [{k: v for k, v in a.items() if k not in times} for a in again] == [
        {k: v for k, v in a.items() if k not in times} for a in exported
    ]


async def test_a_revision_with_another_text_is_no_correction(books: Shelf) -> None:
    """An asset that brings another text under an id that is there is set aside, and changes nothing."""
    await books.put("a.json", json.dumps(make_asset("rule", "Rule", [("第一条", "甲。")])))
    outcome = await books.put("b.json", json.dumps(make_asset("rule", "Rule", [("第一条", "乙。")])))
    assert (outcome.outcome, outcome.code) == ("quarantined", "malformed")
    assert [hit.text for hit in (await books.ask("Rule 第一条")).hits] == ["甲。"]


async def test_a_comparison_shows_every_clause(books: Shelf) -> None:
    """The diff of two revisions shows each clause once, with what happened to it."""
    old = await books.put("relief.md", RULES.format(amount=800), effective="2023-09-01")
    new = await books.put("relief.md", RULES.format(amount=950), effective="2025-07-01")
    lines = await books.curator.diff(ADMIN, old.rev_id or "", new.rev_id or "")
    told = [(line.change.op if line.change else "keep", line.after.label if line.after else None) for line in lines]
    assert told == [("keep", "第一条"), ("modify", "第二条"), ("keep", "第三条")]


async def test_the_four_edges_of_the_holiday_measures(books: Shelf) -> None:
    """Of the real measures nothing holds on the last day of 2013, then the first revision, from 2025 on the second."""
    need_bundle()
    for path in sorted((KB / "schema" / "examples").glob("holiday-measures*.json")):
        await books.put(path.name, path.read_bytes())
    for day, expected in (
        ("2013-12-31", None), ("2014-01-01", "2014-01-01"), ("2024-12-31", "2014-01-01"), ("2025-01-01", "2025-01-01"),
    ):  # fmt: skip
        document = await books.curator.document(ADMIN, "holiday-measures", as_of=day)
        assert (document.revision and document.revision.valid_from) == expected


async def test_all_forms_of_one_law_are_one_revision(books: Shelf) -> None:
    """Every charset and file format of one law gives the same 98 articles, and another charset is no new revision."""
    need_bundle()
    laws = KB / "laws"
    paths = [laws / "社会法__劳动合同法(2012-12-28).md", *sorted((laws / "charset").iterdir())]
    texts = [_articles(path) for path in [*paths, *(laws / n for n in ("law.html", "law_gbk.html"))]]
    texts += [_articles(laws / f"laodonghetongfa.{kind}") for kind in ("pdf", "docx")]
    assert len(texts[0]) == 98
    assert all(one == texts[0] for one in texts)
    outcomes = [await books.put(path.name, path.read_bytes(), title="中华人民共和国劳动合同法") for path in paths]
    assert [one.outcome for one in outcomes] == ["added", "unchanged", "unchanged", "unchanged"]


def _articles(path: Path) -> list[str]:
    document = parse(path.read_bytes(), path.name)
    assert isinstance(document, ParsedDocument), document
    return ["".join(c.text.split()) for c in document.clauses if c.kind == "article"]


async def test_a_named_article_leads_and_look_alikes_stay_behind(books: Shelf) -> None:
    """第十二条 finds article 12, and neither 22 nor 112, whose numbers contain it."""
    clauses = [
        ("第十一条", "押金不退。"),
        ("第十二条", "逾期按日计费。"),
        ("第二十二条", "争议由仲裁解决。"),
        ("第一百一十二条", "附则。"),
    ]
    await books.put("rules.json", json.dumps(make_asset("rules", "规则", clauses)))
    assert await books.texts("第十二条") == ["逾期按日计费。"]
    assert await books.texts("规则第22条是什么内容") == ["争议由仲裁解决。"]
    assert (await books.texts("规则第十二条和押金"))[0] == "逾期按日计费。"
    assert await books.texts("规则第九十条") == []


async def test_a_question_around_an_indexed_phrase_finds_it(books: Shelf) -> None:
    """The words of asking do not hide what is asked for, and the answer tells what each arm found."""
    for name, text in (("a", "报销流程：先提交单据，再由主管审批。"), ("b", "请假流程：提前两天申请。")):
        await books.put(f"{name}.json", json.dumps(make_asset(f"doc-{name}", name, [("一", text)])))
    answered = await books.ask("公司的报销流程是什么")
    assert answered.hits[0].doc_id == "doc-a"
    assert {arm.arm: (arm.found > 0, arm.left_out) for arm in answered.arms} == {
        "article": (False, "no_reference"), "lexical": (True, None), "dense": (False, "off"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "first"), [("13%", 0), ("13 %", 0), ("１３％", 0), ("3%", 1), ("1.3%", 2), ("AX-13", 3), ("ax", 3)]
)
async def test_numbers_and_identifiers_are_whole(books: Shelf, query: str, first: int) -> None:
    """3% is not 13%, 1.3% is neither, and a model number is found whole or by its parts."""
    texts = ["加急件费率为13%。", "普通件费率为3%。", "折扣率1.3%。", "型号 AX-13 的上限为 130 件。"]
    await books.put("fees.json", json.dumps(make_asset("fees", "费率", [(str(n), t) for n, t in enumerate(texts)])))
    assert (await books.texts(query))[0] == texts[first]
