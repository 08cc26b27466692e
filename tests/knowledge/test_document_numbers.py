"""A query that names a document by its number gets what holds that number first."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from devassist.testing.hashing import HashingEmbedder
from devassist.vectors.exact import ExactIndex
from tests.knowledge.shelf import Shelf, shelf

DOCS = {
    "guofa": "# 养老服务的意见\n\n国发〔2024〕3号\n\n第一条 各地做好养老服务。\n\n第二条 本意见由部门解释。\n",
    "guobanfa": "# 养老服务的通知\n\n国办发〔2024〕3号\n\n第一条 国发文件的要求，2024年起，3号以前各地做好养老服务。\n",
    "later": "# 税费的公告\n\n财税〔2019〕13号\n\n第一条 小微企业减征税费。\n",
    "cites": "# 减税的说明\n\n第一条 财税（2020）13号执行后，财税〔2019〕14号停止，2019年13号窗口不受理财税申请。\n",
    "ax13": "# 型号一\n\n第一条 型号 AX-13 的上限为 130 件。\n",
    "ax31": "# 型号二\n\n第一条 型号 AX-31 的上限为 13 件，型号 13 的上限为 AX 件，型号 BX-13 另行规定。\n",
    "gbt": "# 著录规则\n\n第一条 参考文献按 GB/T 7714—2015 著录。\n",
    "gbt05": "# 旧著录规则\n\n第一条 参考文献按 GB/T 7714-2005 著录，GB 2015 与 T 7714 不适用，2015 年起停止。\n",
    "rfc": "# Problem details\n\n## Errors\n\nErrors are sent as RFC 9457 says.\n",
    "rfcs": "# Old problem details\n\n## Errors\n\nRFC 7807 was an RFC on errors; RFC errors have 9457 causes.\n",
}


@pytest.fixture
async def books(tmp_path: Path) -> AsyncGenerator[Shelf]:
    async with shelf(tmp_path, HashingEmbedder(), ExactIndex()) as found:
        for name, text in DOCS.items():
            await found.put(f"{name}.md", text, doc_id=name, effective="2020-01-01")
        assert found.dense is not None
        await found.dense.catch_up()
        yield found


@pytest.mark.parametrize(
    ("query", "doc_id"),
    [
        ("国发〔2024〕3号", "guofa"), ("国发[2024]3号", "guofa"), ("国办发（2024）3号", "guobanfa"),
        ("请问国办发 〔2024〕 3 号对养老服务有什么要求", "guobanfa"), ("财税（2019）13号", "later"),
        ("财税（2020）13号执行后", "cites"),
        ("AX-13", "ax13"), ("型号ＡＸ－13的上限为多少件", "ax13"),
        ("GB/T 7714-2015", "gbt"), ("参考文献 GB/T7714-2015 著录规则", "gbt"), ("GB/T 7714—2005", "gbt05"),
        ("RFC 9457", "rfc"), ("what causes errors have by RFC 9457", "rfc"), ("RFC-7807 误差", "rfcs"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
async def test_the_document_that_holds_the_number_is_first(books: Shelf, query: str, doc_id: str, mode: str) -> None:
    """However the number is written, in whatever company, and whatever other texts share its parts."""
    answered = await books.ask(query, mode=mode)
    assert answered.hits[0].doc_id == doc_id
    assert answered.hits[0].why[0].arm == "article"


async def test_a_code_without_its_hyphen_is_the_same_word(books: Shelf) -> None:
    """AX13 finds the text that says AX-13."""
    assert (await books.ask("AX13", mode="lexical")).hits[0].doc_id == "ax13"


async def test_a_number_that_nothing_holds_leads_nowhere(books: Shelf) -> None:
    """Then the words rank, and no reference is said to have been found."""
    answered = await books.ask("国发〔2024〕4号 养老服务")
    assert {hit.doc_id for hit in answered.hits[:2]} <= {"guofa", "guobanfa"}
    assert answered.arms[0].left_out == "no_reference"


async def test_a_number_in_many_clauses_names_none_of_them(books: Shelf) -> None:
    """Where more than a hundred clauses hold it, the words decide among them."""
    text = "# 编码\n\n" + "\n\n".join(f"第{n}条 第{n}项按 UTF-8 编码。" for n in range(1, 110))
    await books.put("many.md", text + "\n\n第110条 押金不退，按 UTF-8 编码。\n", effective="2020-01-01")
    answered = await books.ask("UTF-8 押金", mode="lexical")
    assert "押金" in answered.hits[0].text
    assert answered.arms[0].left_out == "no_reference"


async def test_a_superseded_number_leads_to_nothing_of_today(books: Shelf) -> None:
    """The number is looked for under the same filter as everything else."""
    await books.put("later.md", "# 税费的公告\n\n第一条 小微企业免征税费。\n", doc_id="later", effective="2025-01-01")
    now, then = await books.ask("财税〔2019〕13号"), await books.ask("财税〔2019〕13号", as_of="2024-12-31")
    assert now.arms[0].left_out == "no_reference"
    assert (then.hits[0].doc_id, then.arms[0].found) == ("later", 1)
