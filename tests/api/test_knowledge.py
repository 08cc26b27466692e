"""Documents over HTTP: in, looked at, compared, found, changed and out again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from devassist.knowledge.assets import parse_asset
from devassist.ports.curation import MAX_FILE_BYTES
from tests.api.kit import Api, Live, calling, raw
from tests.api.knowledge_kit import AMENDED, FILE, LEAVE, keys_of, library, put, taken


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with library(tmp_path) as live:
        yield live


@pytest.fixture
async def root(live: Live) -> AsyncIterator[Api]:
    async with calling(live, key=live.key("root", "admin")) as api:
        yield api


async def names(api: Api) -> list[str]:
    """Documents besides the packaged samples."""
    rows = (await api.get("/knowledge/documents?limit=500")).json["documents"]
    return [row["doc_id"] for row in rows if not row["doc_id"].startswith("yunze-")]


def spooled(live: Live) -> list[Path]:
    """What is left of uploads."""
    return list((live.data / "cache").glob("upload-*"))


async def test_a_file_comes_in_and_is_there_in_every_form(root: Api) -> None:
    """Listed, shown with its clauses, whole as an asset that is valid, and its bytes as they came."""
    done = await taken(root, FILE, LEAVE, doc_id="leave", collection="rules")
    assert (done["outcome"], done["name"], done["clauses"]) == ("added", FILE, 3)
    rows = (await root.get("/knowledge/documents?collection=rules")).json["documents"]
    assert [(r["doc_id"], r["title"], r["state"]) for r in rows] == [("leave", "员工请假办法", "in_force")]
    shown = (await root.get("/knowledge/documents/leave")).json
    assert [c["label"] for c in shown["revision"]["clauses"]] == ["第一条", "第二条", "第三条"]
    assert (shown["revision"]["valid_from"], shown["revision"]["effective_date_basis"]) == ("2026-01-01", "stated")
    asset = (await root.get(f"/knowledge/revisions/{done['rev_id']}")).json
    assert parse_asset(asset, "answer").rev_id == done["rev_id"]
    file = await root.get(f"/knowledge/revisions/{done['rev_id']}/raw")
    assert file.body == LEAVE.encode()
    held = (await root.get("/knowledge/collections")).json["collections"]
    assert {"name": "rules", "documents": 1, "clauses": 3} in held


async def test_a_file_is_handed_out_to_be_saved_only(root: Api) -> None:
    """A page that was taken in never runs in this origin: an attachment of no type, not to be sniffed, under its own
    name."""
    done = await taken(root, "页/关于.html", "<h1>About</h1><script>alert(1)</script><p>Ten days of leave.</p>")
    file = await root.get(f"/knowledge/revisions/{done['rev_id']}/raw")
    assert file.headers["Content-Type"] == "application/octet-stream"
    assert file.headers["X-Content-Type-Options"] == "nosniff"
    assert file.headers["Content-Disposition"].startswith("attachment;")
    assert "sandbox" in file.headers["Content-Security-Policy"]


async def test_the_same_file_again_changes_nothing(root: Api) -> None:
    """200 and ``unchanged``; 201 and ``amended`` when its text is another one from a later day on."""
    await taken(root, FILE, LEAVE, doc_id="leave")
    again = await put(root, FILE, LEAVE)
    assert (again.status, again.json["outcome"]) == (200, "unchanged")
    amended = await put(root, FILE, AMENDED, doc_id="leave")
    assert (amended.status, amended.json["outcome"]) == (201, "amended")
    assert amended.json["changes"] == {"keep": 2, "modify": 1}
    assert len((await root.get("/knowledge/documents/leave")).json["beliefs"]) == 3


async def test_a_day_decides_what_holds(root: Api) -> None:
    """The day before, of and after an amendment, in the document and in search."""
    for text in (LEAVE, AMENDED):
        await taken(root, FILE, text, doc_id="leave")
    for day, words in (("2026-05-31", "十天"), ("2026-06-01", "十五天"), ("2026-06-02", "十五天")):
        shown = (await root.get(f"/knowledge/documents/leave?as_of={day}")).json
        assert words in shown["revision"]["clauses"][1]["text"]
        found = (await root.get(f"/knowledge/search?q=年休假&as_of={day}")).json
        assert words in found["hits"][0]["text"]
    early = (await root.get("/knowledge/search?q=年休假&as_of=2025-12-31")).json
    assert (early["hits"], early["reason"]) == ([], "no_version_in_force")
    assert (await root.get("/knowledge/documents/leave?as_of=2025-12-31")).json["state"] == "not_yet"


async def test_a_clause_says_what_became_of_it(root: Api) -> None:
    """The deep link of a citation shows the clause as it was cited, and today's in its place."""
    first, second = [await taken(root, FILE, text, doc_id="leave") for text in (LEAVE, AMENDED)]
    old = quote(f"{first['rev_id']}#art-2", safe="")
    shown = (await root.get(f"/knowledge/clauses/{old}")).json
    assert ("十天" in shown["text"], shown["changed_since"], shown["standing"]) == (True, True, "changed")
    assert ("十五天" in shown["today"]["text"], shown["today"]["rev_id"]) == (True, second["rev_id"])
    kept = quote(f"{first['rev_id']}#art-3", safe="")
    assert (await root.get(f"/knowledge/clauses/{kept}")).json["changed_since"] is False
    await root.post("/knowledge/documents/leave/repeal", {"day": "2026-07-01"})
    gone = (await root.get(f"/knowledge/clauses/{kept}")).json
    assert (gone["standing"], gone["today"]) == ("not_in_force", None)
    for wrong in (f"{first['rev_id']}#art-99", first["rev_id"], "nothing@2020-01-01#art-1"):
        reply = await root.get(f"/knowledge/clauses/{quote(wrong, safe='')}")
        assert (reply.status, reply.json["code"]) == (404, "revision_not_found")


async def test_revisions_are_compared_clause_by_clause(root: Api) -> None:
    """What was kept and what was modified, with both texts."""
    first, second = [await taken(root, FILE, text, doc_id="leave") for text in (LEAVE, AMENDED)]
    reply = await root.get(f"/knowledge/diff?before={first['rev_id']}&after={second['rev_id']}")
    lines = reply.json["lines"]
    assert [line["op"] for line in lines] == ["keep", "modify", "keep"]
    assert (lines[1]["before"]["text"], lines[1]["after"]["text"]) == ("年休假每年十天。", "年休假每年十五天。")


async def test_repeal_and_delete_are_at_once(root: Api) -> None:
    """Repealed: found for days before, not after. Deleted: found for no day; again it is not there."""
    await taken(root, FILE, LEAVE, doc_id="leave")
    shown = (await root.post("/knowledge/documents/leave/repeal", {"day": "2026-03-01"})).json
    assert (shown["state"], shown["valid_to"]) == ("ended", "2026-03-01")
    found = {day: (await root.get(f"/knowledge/search?q=年休假&as_of={day}")).json["hits"] for day in
             ("2026-02-28", "2026-03-01")}  # fmt: skip
    assert [len(hits) > 0 for hits in found.values()] == [True, False]
    assert (await root.post("/knowledge/documents/leave/repeal", {"day": "2026-04-01"})).json["code"] == (
        "nothing_to_repeal"
    )
    assert (await root.send("DELETE", "/knowledge/documents/leave")).status == 204
    assert (await root.get("/knowledge/search?q=年休假&as_of=2026-02-28")).json["hits"] == []
    for verb, path in (("GET", ""), ("DELETE", ""), ("POST", "/repeal")):
        reply = await root.send(verb, f"/knowledge/documents/leave{path}", json={"day": "2026-04-01"})
        assert (reply.status, reply.json["code"]) == (404, "document_not_found")


async def test_search_shows_its_arms(root: Api) -> None:
    """Each hit says which arm found it at which rank; each arm says how many, or why it was left out."""
    await taken(root, FILE, LEAVE, doc_id="leave")
    found = (await root.get("/knowledge/search?q=年休假几天&top_k=2")).json
    assert found["hits"][0]["why"][0]["arm"] == "lexical"
    assert found["hits"][0]["clause_id"].endswith("#art-2")
    arms = {arm["arm"]: arm for arm in found["arms"]}
    assert (arms["lexical"]["left_out"], arms["dense"]["left_out"]) == (None, "off")
    named = (await root.get("/knowledge/search?q=员工请假办法第三条")).json
    assert named["hits"][0]["label"] == "第三条"
    assert {arm["arm"]: arm["left_out"] for arm in named["arms"]}["article"] is None


@pytest.mark.parametrize("query", ["", "   ", "？", "　", '"'])
async def test_a_query_without_words_is_refused(root: Api, query: str) -> None:
    """With a reason, before anything is searched (case D13)."""
    reply = await root.send("GET", "/knowledge/search", params={"q": query})
    assert (reply.status, reply.json["code"]) == (400, "blank_query")


@pytest.mark.parametrize("query", ["AND OR NOT", "a' OR 1=1 --", "(( x", 'NEAR("a" b)', "col:umn *"])
async def test_query_syntax_is_text(root: Api, query: str) -> None:
    """Nothing in a query is an operator (case D13)."""
    await taken(root, FILE, LEAVE, doc_id="leave")
    reply = await root.send("GET", "/knowledge/search", params={"q": query})
    assert reply.status == 200, reply.text


async def test_an_unreadable_file_is_quarantined_with_its_reason(live: Live, root: Api) -> None:
    """422 with code and detail, listed for administrators, and no document."""
    reply = await put(root, "噪声.bin", b"\x00\x01\x02" * 500)
    assert (reply.status, reply.json["code"]) == (422, "file_quarantined")
    assert reply.json["quarantine"]["code"] in reply.json["detail"]
    (file,) = (await root.get("/knowledge/quarantine")).json["files"]
    assert (file["name"], file["code"]) == ("噪声.bin", reply.json["quarantine"]["code"])
    assert await names(root) == []
    assert spooled(live) == []


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"name": "../../etc/passwd"}, "/query/name"),
        ({"name": "/etc/passwd"}, "/query/name"),
        ({"name": "a\nb.md"}, "/query/name"),
        ({"name": "a.md", "collection": "No Such"}, "/query/collection"),
        ({"name": "a.md", "collection": "agent_memory"}, "/query/collection"),
        ({"name": "a.md", "doc_id": "A@1"}, "/query/doc_id"),
        ({"name": "a.md", "label": "two words"}, "/query/label"),
        ({"name": "a.md", "effective": "2026-02-30"}, "/query/effective"),
        ({"name": "a.md", "effective": "2026-02-01", "valid_to": "2026-01-01"}, "/query/valid_to"),
        ({"name": "a.md", "url": "javascript:alert(1)"}, "/query/url"),
        ({"name": "a.md", "kind": "gossip"}, "/query/kind"),
        ({}, "/query/name"),
    ],
)
async def test_a_wrong_parameter_is_named(root: Api, params: dict[str, str], path: str) -> None:
    """422, pointing at what is wrong, and nothing is taken in."""
    reply = await root.send("POST", "/knowledge/documents", params=params, data=LEAVE.encode())
    assert reply.status == 422, reply.text
    assert path in [error["path"] for error in reply.json["errors"]]
    assert await names(root) == []


async def test_an_empty_body_is_refused(root: Api) -> None:
    """A file has bytes."""
    assert (await put(root, "a.md", b"")).status == 422


async def test_uploads_have_a_limit_of_their_own(live: Live, root: Api) -> None:
    """A file may be larger than other bodies; over the limit it is 413, said or not said beforehand, and no file of it
    is left; other paths keep the small limit."""
    text = "# 大\n\n" + "一段话。" * 300_000
    assert len(text.encode()) > 2_000_000

    async def pieces() -> AsyncIterator[bytes]:
        yield text.encode()

    large = await root.send("POST", "/knowledge/documents", params={"name": "大.md"}, data=pieces())
    assert large.status == 201, large.text
    too_large = {"Content-Length": str(MAX_FILE_BYTES + 1)}
    key = root._headers["Authorization"]  # pyright: ignore[reportPrivateUsage]
    head = f"POST /knowledge/documents?name=a.md HTTP/1.1\r\nHost: localhost\r\nAuthorization: {key}\r\n"
    said = "".join(f"{name}: {value}\r\n" for name, value in too_large.items())
    status, _, body = await raw(live.port, f"{head}{said}\r\n".encode())
    assert (status, json.loads(body)["code"]) == (413, "body_too_large")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MAX_FILE_BYTES // (1 << 20) + 2):
            yield bytes(1 << 20)

    reply = await root.send("POST", "/knowledge/documents", params={"name": "b.md"}, data=chunks())
    assert (reply.status, reply.json["code"]) == (413, "body_too_large")
    assert spooled(live) == []
    other = await root.send("POST", "/knowledge/documents/leave/repeal", data=pieces())
    assert other.status == 413


async def test_an_export_comes_in_again_as_it_was(root: Api) -> None:
    """Every believed revision is a line, and those lines make the same documents elsewhere."""
    for text in (LEAVE, AMENDED):
        await taken(root, FILE, text, doc_id="leave", collection="rules")
    exported = (await root.get("/knowledge/export?collection=rules")).text
    assets = [json.loads(line) for line in exported.splitlines()]
    assert [asset["valid_from"] for asset in assets] == ["2026-01-01", "2026-06-01"]
    before = (await root.get("/knowledge/documents/leave?as_of=2026-03-01")).json["revision"]
    await root.send("DELETE", "/knowledge/documents/leave")
    other = [{**asset, "doc_id": "copy", "rev_id": asset["rev_id"].replace("leave@", "copy@")} for asset in assets]
    for asset in other:
        for clause in asset["clauses"]:
            clause["clause_id"] = clause["clause_id"].replace("leave@", "copy@")
        asset["supersedes"] = asset["supersedes"] and asset["supersedes"].replace("leave@", "copy@")
        await taken(root, f"{asset['rev_id']}.json", json.dumps(asset, ensure_ascii=False), collection="other")
    after = (await root.get("/knowledge/documents/copy?as_of=2026-03-01")).json["revision"]
    assert [c["text_sha256"] for c in after["clauses"]] == [c["text_sha256"] for c in before["clauses"]]
    assert after["content_sha256"] == before["content_sha256"]


async def test_without_an_embedder_the_index_says_so(root: Api) -> None:
    """It is not behind, and it cannot be rebuilt."""
    state = (await root.get("/knowledge/index")).json
    assert (state["embedder"], state["behind"], state["lag"]) == (None, False, 0)
    reply = await root.post("/knowledge/index/rebuild")
    assert (reply.status, reply.json["code"]) == (503, "embedder_unavailable")


async def test_lists_are_paged(root: Api) -> None:
    """Each document once, by id, whatever the pages."""
    for number in range(7):
        await taken(root, f"{number}.md", f"# 第 {number} 号\n\n内容 {number}。", doc_id=f"doc-{number}")
    seen: list[str] = []
    after: str | None = None
    while True:
        query: dict[str, Any] = {"limit": 3, "collection": "docs"} | ({"after": after} if after else {})
        page = (await root.send("GET", "/knowledge/documents", params=query)).json
        seen += [row["doc_id"] for row in page["documents"]]
        after = page["next"]
        if after is None:
            break
    assert seen == [f"doc-{number}" for number in range(7)]


async def test_changes_are_for_administrators(live: Live, root: Api) -> None:
    """403 for everybody else, and nothing is changed."""
    await taken(root, FILE, LEAVE, doc_id="leave")
    async with calling(live, key=keys_of(live)["bob"]) as bob:
        asked = [
            await put(bob, "b.md", "# B\n\nText."),
            await bob.send("DELETE", "/knowledge/documents/leave"),
            await bob.post("/knowledge/documents/leave/repeal", {"day": "2026-02-01"}),
            await bob.post("/knowledge/index/rebuild"),
            await bob.get("/knowledge/quarantine"),
            await bob.get("/knowledge/export"),
        ]
        assert [(reply.status, reply.json["code"]) for reply in asked] == [(403, "forbidden")] * len(asked)
        rows = (await bob.get("/knowledge/documents?collection=docs")).json["documents"]
    assert [(row["doc_id"], row["state"]) for row in rows] == [("leave", "in_force")]


async def test_metrics_tell_what_there_is_and_how_it_is_searched(root: Api) -> None:
    """Documents and clauses by collection, the quarantine, the lag, and searches by arm and what it did."""
    await taken(root, FILE, LEAVE, collection="rules")
    await put(root, "noise.bin", b"\x00\x01" * 500)
    for query in ("年休假", "zebra"):
        await root.get(f"/knowledge/search?q={query}&collection=rules")
    text = (await root.get("/metrics")).text
    for line in (
        'devassist_knowledge_documents{collection="rules"} 1.0',
        'devassist_knowledge_clauses{collection="rules"} 3.0',
        "devassist_knowledge_quarantined 1.0",
        "devassist_knowledge_index_lag 0.0",
        'devassist_knowledge_searches_total{arm="lexical",outcome="found"} 1.0',
        'devassist_knowledge_searches_total{arm="dense",outcome="off"} 2.0',
    ):
        assert line in text, line


async def test_affected_answers_are_found_by_document(root: Api) -> None:
    """Over HTTP as on the command line; who is neither administrator nor the one who asked finds nothing."""
    done = await taken(root, FILE, LEAVE, doc_id="leave")
    answer = await root.ask("年休假每年几天？", agent="rag")
    rows = (await root.get("/knowledge/affected?doc_id=leave")).json["rows"]
    assert {(row["trace_id"], row["used"], row["user_id"]) for row in rows if row["used"] == "cited"} == {
        (answer["trace_id"], "cited", "root")
    }
    assert (await root.get(f"/knowledge/affected?rev_id={done['rev_id']}")).json["rows"] == rows
    wrong = await root.get("/knowledge/affected")
    assert (wrong.status, wrong.json["errors"][0]["path"]) == (422, "/query/doc_id")
