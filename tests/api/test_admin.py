"""The administrators' pages: lists of runs and decision-log rows with filters and paging, and a run's evidence."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import pytest

from tests.api.fakes import Fakes, call, final
from tests.api.kit import Api, Live, calling, serving

FAKES = Fakes()
RULES: list[dict[str, Any]] = [
    {"match": "^fail", "replies": [{"error": {"detail": "the provider is down"}}]},
    {"match": "^sleep", "replies": [call("wait", seconds=60), final("slept")]},
    {"match": "^search", "replies": [call("search_docs", query="杭州的退货期限"), final("found nothing")]},
    {"replies": [final("年假有五天")]},
]
COLUMNS = {
    "trace_id", "seq", "kind", "step", "state", "tenant", "user_id", "conversation_id", "agent", "tool_name",
    "input_text", "output_text", "duration_ms", "error_code", "error_message", "degraded", "metadata", "timestamp",
    "hash", "prev_hash",
}  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("admin"), RULES, FAKES.tools()) as made:
        asyncio.run(_fill(made))
        yield made


async def _fill(live: Live) -> None:
    """Twelve runs of two users: ten by ann in conversation a, one that failed; one search by bob."""
    async with calling(live, "ann") as ann, calling(live, "bob") as bob:
        for i in range(9):
            await ann.ask(f"休假 问题 number {i}", conversation_id="a")
        await ann.ask("fail now", conversation_id="a")
        await bob.ask("search 退货", conversation_id="b")
        await bob.ask("hello WORLD", conversation_id="b")


@pytest.fixture
async def admin(live: Live) -> AsyncIterator[Api]:
    async with calling(live) as made:
        yield made


async def listed(api: Api, query: str = "", limit: int = 50) -> list[dict[str, Any]]:
    """All rows over all pages."""
    rows: list[dict[str, Any]] = []
    path = f"/admin/agent-traces?limit={limit}{query}"
    before = ""
    for _ in range(100):
        reply = await api.get(path + before)
        assert reply.status == 200, reply.text
        page = reply.json
        assert page["lag"] == 0
        assert len(page["traces"]) <= limit
        rows += page["traces"]
        if page["next"] is None:
            return rows
        before = f"&before={page['next']}"
    raise AssertionError("the pages do not end")


async def test_the_list_is_newest_first(admin: Api) -> None:
    """One row a run, with who, what, when and how it ended."""
    rows = await listed(admin)
    assert len(rows) == 12
    assert [row["trace_id"] for row in rows] == sorted((row["trace_id"] for row in rows), reverse=True)
    first = rows[0]
    assert (first["user"], first["message"], first["status"]) == ("bob", "hello WORLD", "succeeded")
    assert (first["agent"], first["conversation_id"], first["model"]) == ("dev", "b", "scripted")
    assert first["erased"] is False
    assert first["events"] == 4


@pytest.mark.parametrize("limit", [1, 5, 12])
@pytest.mark.parametrize(
    "query", ["", "&q=休假", "&user=ann", "&status=succeeded", "&q=问题&user=ann&status=succeeded"]
)
async def test_pages_join_to_the_whole(admin: Api, query: str, limit: int) -> None:
    """However long a page is, each run stands on exactly one, in order, also where texts are searched."""
    whole = [row["trace_id"] for row in await listed(admin, query, 200)]
    paged = [row["trace_id"] for row in await listed(admin, query, limit)]
    assert paged == whole
    assert len(set(whole)) == len(whole)
    assert len(whole) >= 9


@pytest.mark.parametrize(
    ("query", "messages"),
    [
        ("user=bob", ["hello WORLD", "search 退货"]),
        ("user=nobody", []),
        ("status=failed", ["fail now"]),
        ("status=cancelled", []),
        ("conversation_id=b", ["hello WORLD", "search 退货"]),
        ("conversation_id=b&user=ann", []),
        ("q=退货", ["search 退货"]),
        ("q=期限", ["search 退货"]),
        ("q=杭州 退货", ["search 退货"]),
        ("q=world", ["hello WORLD"]),
        ("q=WORLD&user=ann", []),
        ("q=provider", ["fail now"]),
        ("q=fail&status=failed", ["fail now"]),
        ("q=fail&status=succeeded", []),
        ("q=没有的词", []),
        ("q=number 3", ["休假 问题 number 3"]),
    ],
)
async def test_filters(admin: Api, query: str, messages: list[str]) -> None:
    """All filters hold together; words of two Chinese characters are found in any text of a run."""
    rows = await listed(admin, "&" + quote(query, safe="=&"))
    assert [row["message"] for row in rows] == messages


async def test_times_bound_the_list(admin: Api) -> None:
    """since and until are half-open, in milliseconds, with and without a search."""
    rows = await listed(admin)
    middle = rows[5]["started_at_ms"]
    for query in ("", "&q=休假"):
        since = await listed(admin, f"{query}&since_ms={middle}")
        until = await listed(admin, f"{query}&until_ms={middle}")
        assert all(row["started_at_ms"] >= middle for row in since)
        assert all(row["started_at_ms"] < middle for row in until)
        ids = {row["trace_id"] for row in (*since, *until)}
        assert ids == {row["trace_id"] for row in await listed(admin, query)}


async def test_a_page_keeps_to_its_times(admin: Api) -> None:
    """``before`` goes on after a run and takes no other filter away."""
    rows = await listed(admin)
    newest, middle = rows[0]["trace_id"], rows[5]["started_at_ms"]
    page = (await admin.get(f"/admin/agent-traces?until_ms={middle}&before={newest}")).json["traces"]
    assert [row["trace_id"] for row in page] == [r["trace_id"] for r in rows if r["started_at_ms"] < middle]


async def test_a_run_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    """Its row says what is wrong with it; the others are as they were."""
    with serving(tmp_path, RULES) as live:
        async with calling(live) as api:
            good, bad = [(await api.ask(text))["trace_id"] for text in ("hi", "ho")]
            with closing(apsw.Connection(str(live.data / "journal.db"))) as journal:
                for (name,) in journal.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                    journal.execute(f"DROP TRIGGER {name}")
                journal.execute("UPDATE events SET body = x'00' WHERE stream = ? AND seq = 0", (bytes.fromhex(bad),))
            rows = await listed(api)
    assert [(row["trace_id"], row["message"]) for row in rows] == [(bad, None), (good, "hi")]
    assert "seq=0" in rows[0]["unreadable"]
    assert rows[1]["unreadable"] is None


@pytest.mark.parametrize(
    "query",
    ["status=odd", "limit=0", "limit=201", "limit=x", "since_ms=-1", "until_ms=" + "9" * 30, "q=", "q=%20",
     "q=x&before=nonsense", "before=nonsense", "since_ms=1.5"],
)  # fmt: skip
async def test_what_cannot_be_asked_is_422(admin: Api, query: str) -> None:
    """A wrong filter is named, never guessed at and never a 500."""
    reply = await admin.get(f"/admin/agent-traces?{query}")
    assert (reply.status, reply.json["code"]) == (422, "invalid_request"), reply.text


async def test_an_open_run_is_listed_as_it_stands(admin: Api) -> None:
    """Running, then cancelled; the filter by status follows."""
    FAKES.began.clear()
    asked = asyncio.create_task(admin.ask("sleep", conversation_id="open"))
    await asyncio.to_thread(FAKES.began.wait, 10)
    rows = await listed(admin, "&status=running")
    assert [row["message"] for row in rows] == ["sleep"]
    await admin.post(f"/runs/{rows[0]['trace_id']}/cancel")
    assert (await asked)["status"] == "cancelled"
    assert await listed(admin, "&status=running") == []
    assert [row["message"] for row in await listed(admin, "&status=cancelled")] == ["sleep"]


async def test_the_detail_holds_the_evidence(admin: Api) -> None:
    """Steps, raw events chained by hash, the graph, and a verification that passes; events come in pages."""
    trace_id = (await listed(admin, "&q=退货"))[0]["trace_id"]
    detail = (await admin.get(f"/admin/agent-traces/{trace_id}")).json
    assert [event["seq"] for event in detail["events"]] == list(range(len(detail["events"])))
    assert all(event.keys() == {"seq", "at_us", "kind", "body", "hash"} for event in detail["events"])
    assert [event["kind"] for event in detail["events"]] == [
        "run_started", "model_intended", "model_replied", "tool_intended", "tool_returned", "model_intended",
        "model_replied", "run_finished",
    ]  # fmt: skip
    assert detail["steps"][0]["tool_args"] == {"query": "杭州的退货期限"}
    assert detail["graph"].startswith("flowchart")
    report = detail["verification"]
    assert (report["ok"], report["events"], report["faults"], report["erased"]) == (True, 8, [], 0)
    assert report["checks"]
    events: list[Any] = []
    after = -1
    while after is not None:
        page = (await admin.get(f"/admin/agent-traces/{trace_id}?limit=3&after={after}")).json
        events += page["events"]
        after = page["next_after"]
    assert events == detail["events"]
    for bad in ("after=-2", "after=" + "9" * 30, "limit=0", "limit=1001"):
        assert (await admin.get(f"/admin/agent-traces/{trace_id}?{bad}")).status == 422


async def rows_of(api: Api, query: str, limit: int = 500) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    after = ""
    while True:
        reply = await api.get(f"/admin/decision-log?limit={limit}&{query}{after}")
        assert reply.status == 200, reply.text
        page = reply.json
        assert page.keys() == {"rows", "next", "lag"}
        assert page["lag"] == 0
        rows += page["rows"]
        if page["next"] is None:
            return rows
        after = f"&after={page['next']}"


@pytest.mark.parametrize(
    ("query", "column", "value"),
    [
        ("kind=run_finished", "kind", "run_finished"),
        ("state=ERROR", "state", "ERROR"),
        ("error_code=provider_error", "error_code", "provider_error"),
        ("tool_name=search_docs", "tool_name", "search_docs"),
        ("user_id=bob", "user_id", "bob"),
        ("conversation_id=a", "conversation_id", "a"),
        ("agent=dev", "agent", "dev"),
        ("step=1", "step", 1),
    ],
)
async def test_decision_log_rows_by_any_column(admin: Api, query: str, column: str, value: Any) -> None:
    """Every column filters, and the rows carry all columns."""
    rows = await rows_of(admin, query)
    assert rows
    assert all(row.keys() == COLUMNS and row[column] == value for row in rows)


async def test_decision_log_pages_by_keyset(admin: Api) -> None:
    """Pages of any length join to the whole in both directions, and chain by their hashes."""
    whole = await rows_of(admin, "user_id=ann")
    assert await rows_of(admin, "user_id=ann", 7) == whole
    assert await rows_of(admin, "user_id=ann&oldest_first=true", 11) == whole[::-1]
    trace_id = whole[0]["trace_id"]
    chain = await rows_of(admin, f"trace_id={trace_id}&oldest_first=true")
    assert [row["seq"] for row in chain] == list(range(len(chain)))
    assert all(b["prev_hash"] == a["hash"] for a, b in itertools.pairwise(chain))


async def test_decision_log_text_search(admin: Api) -> None:
    """Full text works for Chinese words of two characters, for case, and together with columns."""
    assert {row["user_id"] for row in await rows_of(admin, "text=退货")} == {"bob"}
    assert {row["trace_id"] for row in await rows_of(admin, "text=world")} == {
        row["trace_id"] for row in await rows_of(admin, "text=WORLD&user_id=bob")
    }
    assert await rows_of(admin, "text=年假&user_id=nobody") == []


@pytest.mark.parametrize(
    "query",
    ["kind=odd", "state=odd", "trace_id=xyz", "after=odd", "limit=0", "limit=501", "step=x", "text=",
     "since=" + "9" * 30, "step=" + "9" * 30, "until=-" + "9" * 25],
)  # fmt: skip
async def test_what_cannot_be_asked_of_the_log_is_422(admin: Api, query: str) -> None:
    """A wrong filter is a problem that names it."""
    reply = await admin.get(f"/admin/decision-log?{query}")
    assert (reply.status, reply.json["code"]) == (422, "invalid_request"), reply.text
    assert reply.json["errors"][0]["path"].startswith(f"/query/{query.partition('=')[0]}")


async def test_a_list_says_how_far_behind_it_is(admin: Api, live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the projection cannot keep up the answer comes all the same, with its lag."""

    async def slowly(*_: object) -> int:
        await asyncio.sleep(2.5)
        return 0

    monkeypatch.setattr(live.services.log, "catch_up", slowly)
    monkeypatch.setattr(live.services.log, "follow_once", slowly)
    await admin.ask("one more", conversation_id="late")
    page = (await admin.get("/admin/decision-log?limit=1")).json
    assert page["lag"] > 0
    assert (await admin.get("/admin/agent-traces?q=more")).json["lag"] > 0
    assert (await admin.get("/admin/agent-traces?limit=1")).json["traces"][0]["message"] == "one more"
