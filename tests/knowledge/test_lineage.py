"""Which clause of a revision goes on which of the one before."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.knowledge.lineage import Unit, changes, compare, lineages
from devassist.knowledge.parsing.document import ParsedDocument
from devassist.knowledge.parsing.parse import parse
from devassist.ports.knowledge_store import ClauseNumber
from tests.kb import KB, need_bundle


def unit(number: int, text: str, lineage_id: str = "") -> Unit:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Unit(f"第{number}条", ClauseNumber(number), text, digest, lineage_id)


def ops(old: list[Unit], new: list[Unit]) -> list[tuple[str, int | None, int | None]]:
    return [(s.op, s.old, s.new) for s in compare(old, new)]


A, B, C, D = (
    "申请人应当提交身份证明和收入证明。",
    "受理机关在十五日内作出决定并书面通知。",
    "对决定不服的，可以依法申请行政复议。",
    "新设的公示程序由民政部门负责组织。",
)


def test_an_insertion_renumbers_what_follows() -> None:
    """A clause put between two others adds one clause and renumbers the rest, and deletes none."""
    old, new = (
        [unit(1, A), unit(2, B), unit(3, C)],
        [unit(1, A), unit(2, D), unit(3, B), unit(4, C)],
    )
    assert ops(old, new) == [("keep", 0, 0), ("add", None, 1), ("renumber", 1, 2), ("renumber", 2, 3)]


def test_a_changed_word_is_a_modification() -> None:
    """A clause of which a word changed is the old one, modified, and shows how alike the two are."""
    steps = compare([unit(2, B)], [unit(2, B.replace("十五", "二十"))])
    assert [s.op for s in steps] == ["modify"]
    assert 0.5 < steps[0].similarity < 1
    assert changes([unit(2, B)], [unit(2, B.replace("十五", "二十"))], steps)[0].before == "第2条"


def test_what_is_not_alike_is_deleted_and_added() -> None:
    """A clause with another text under the same number is no modification of it."""
    assert sorted(op for op, _, _ in ops([unit(1, A)], [unit(1, C)])) == ["add", "delete"]


def test_equal_texts_are_told_apart_by_their_numbers() -> None:
    """Where one text stands twice, each keeps its own number."""
    assert ops([unit(1, A), unit(2, A)], [unit(2, A), unit(1, A)]) == [("keep", 1, 0), ("keep", 0, 1)]


TEXTS = st.lists(st.sampled_from([A, B, C, A + B, B + C, "附则。", "本办法自公布之日起施行。"]), max_size=7)


@given(TEXTS, TEXTS)
def test_every_clause_is_accounted_for_once(left: list[str], right: list[str]) -> None:
    """Each old and each new clause stands in exactly one step, and no lineage is given to two clauses of a revision."""
    old = [unit(n, text, f"d:{n}") for n, text in enumerate(left)]
    new = [unit(n, text) for n, text in enumerate(right)]
    steps = compare(old, new)
    assert Counter(s.old for s in steps if s.old is not None) == Counter(range(len(old)))
    assert Counter(s.new for s in steps if s.new is not None) == Counter(range(len(new)))
    assert [s.new for s in steps if s.new is not None] == list(range(len(new)))
    names = lineages("d", old, new, steps)
    assert len(set(names)) == len(names) == len(new)


def test_blanks_are_no_change() -> None:
    """Copies of a text that differ in white space alone are the same clause."""
    assert ops([unit(1, A)], [unit(1, A.replace("和", " 和\n"))]) == [("keep", 0, 0)]


def _articles(name: str) -> list[Unit]:
    document = parse((KB / "laws" / name).read_bytes(), name)
    assert isinstance(document, ParsedDocument)
    return [
        Unit(c.label, c.number, c.text, hashlib.sha256(c.text.encode()).hexdigest())
        for c in document.clauses
        if c.kind == "article"
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("宪法相关法__立法法(2015-03-15).md", "宪法相关法__立法法(2023-03-13).md", {"keep": 2, "renumber": 58}),
        ("社会法__未成年人保护法(2020-10-17).md", "社会法__未成年人保护法(2024-04-26).md", {"keep": 131, "modify": 1}),
        (
            "行政法规__道路运输条例(2022-03-29).md",
            "行政法规__道路运输条例(2023-07-20).md",
            {"keep": 65, "renumber": 12},
        ),
        ("行政法规__发票管理办法(2019-03-02).md", "行政法规__发票管理办法(2023-07-20).md", {"keep": 8, "renumber": 14}),
    ],
)
def test_real_amendments_are_told_as_they_were(old: str, new: str, expected: dict[str, int]) -> None:
    """Of real statutes the diff keeps exactly the texts that were kept, and tells renumberings from other changes."""
    need_bundle()
    counts = Counter(step.op for step in compare(_articles(old), _articles(new)))
    assert {op: counts[op] for op in expected} == expected
