"""Who may see what: labels keep documents from a user as if they were not there (case D21)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any
from urllib.parse import quote

import pytest

from tests.api.kit import OPERATOR, Live, Reply, calling
from tests.api.knowledge_kit import AMENDED, LEAVE, keys_of, library, taken
from tests.api.test_oracle import LEAK_NS, PROBES, TRIES, Asgi, Times, opened, request

SECRET = "红头密级"
FORBIDDEN, PERMITTED = 40, 3


@dataclass
class Scene:
    """A library of which Bob sees three documents, Ann those labelled hr too, and the administrator all."""

    live: Live
    keys: dict[str, str]
    rev_id: str
    hidden: set[str]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with library(tmp_path_factory.mktemp("labels")) as live:
        keys = keys_of(live)
        rev_id = asyncio.run(_filled(live, keys["root"]))
        yield Scene(live, keys, rev_id, {"pay-secret", *(f"closed-{number}" for number in range(FORBIDDEN))})


async def _filled(live: Live, key: str) -> str:
    async with calling(live, key=key) as root:
        for number in range(FORBIDDEN):
            text = f"# 出差补助 {number}\n\n出差补助标准，出差补助，出差补助。{SECRET}{number}。"
            await taken(root, f"closed/{number}.md", text, doc_id=f"closed-{number}", label="board")
        for number in range(PERMITTED):
            text = f"# 差旅说明 {number}\n\n员工出差前先填申请，回来后报销补助，说明 {number}。"
            await taken(root, f"open/{number}.md", text, doc_id=f"open-{number}")
        await taken(
            root, "board.md", f"# 董事会\n\n{SECRET}。", doc_id="board-only", collection="boardroom", label="board"
        )
        await taken(root, "pay.md", LEAVE.replace("员工请假办法", f"{SECRET}薪酬办法"), doc_id="pay-secret", label="hr")
        done = await taken(root, "pay.md", AMENDED.replace("员工请假办法", f"{SECRET}薪酬办法"), doc_id="pay-secret",
                           label="hr")  # fmt: skip
        return done["rev_id"]


async def test_a_filter_acts_before_ranking_and_leaks_nothing(scene: Scene) -> None:
    """Forty documents that Bob may not see are nearer to his question; he gets the three that he may, and no id, text
    or number of the others anywhere."""
    async with calling(scene.live, key=scene.keys["bob"]) as bob:
        reply = await bob.get("/knowledge/search?q=出差补助标准&top_k=3")
        assert len(reply.json["hits"]) == PERMITTED
        assert {hit["doc_id"] for hit in reply.json["hits"]} == {f"open-{number}" for number in range(PERMITTED)}
        assert not reply.json.keys() & {"withheld", "index_lag", "index_version"}
        arms = {arm["arm"]: arm["found"] for arm in reply.json["arms"]}
        assert arms["lexical"] == PERMITTED
        told = [reply] + [
            await bob.get(path)
            for path in (
                "/knowledge/documents?limit=500", "/knowledge/collections", "/knowledge/index",
                f"/knowledge/documents?q={quote(SECRET)}", f"/knowledge/search?q={quote(SECRET)}",
            )
        ]  # fmt: skip
    for each in told:
        text = each.text
        assert SECRET not in json.dumps(each.json, ensure_ascii=False)
        assert not [doc_id for doc_id in (*scene.hidden, "boardroom", "board-only", "closed-") if doc_id in text]
    counts = {row["name"]: row["documents"] for row in told[2].json["collections"]}
    assert counts["docs"] == PERMITTED
    assert told[3].json.keys() == {"embedder", "index", "ready", "behind"}


async def test_a_label_opens_what_it_is_for(scene: Scene) -> None:
    """Ann sees hr and not board; the administrator sees both, and how much was withheld from nobody."""
    async with calling(scene.live, key=scene.keys["ann"]) as ann:
        found = (await ann.get(f"/knowledge/documents?q={quote(SECRET)}")).json["documents"]
        assert [row["doc_id"] for row in found] == ["pay-secret"]
        assert (await ann.get(f"/knowledge/revisions/{scene.rev_id}")).status == 200
        assert (await ann.get("/knowledge/documents/closed-1")).status == 404
    async with calling(scene.live, key=scene.keys["root"]) as root:
        found = (await root.get("/knowledge/search?q=出差补助标准&top_k=50")).json
        assert len(found["hits"]) == FORBIDDEN + PERMITTED
        assert found["withheld"] == 0


def _paths(doc_id: str, rev_id: str, collection: str) -> list[tuple[str, dict[str, Any] | None]]:
    clause = quote(f"{rev_id}#art-2", safe="")
    return [
        (f"/knowledge/documents/{doc_id}", None),
        (f"/knowledge/documents/{doc_id}?as_of=2026-02-01", None),
        (f"/knowledge/revisions/{rev_id}", None),
        (f"/knowledge/revisions/{rev_id}/raw", None),
        (f"/knowledge/diff?before={rev_id}&after={rev_id}", None),
        (f"/knowledge/clauses/{clause}", None),
        (f"/knowledge/documents?collection={collection}", None),
        (f"/knowledge/search?q=补助&collection={collection}", None),
        (f"/knowledge/affected?doc_id={doc_id}", None),
        (f"/knowledge/affected?rev_id={rev_id}", None),
    ]


def _told(reply: Reply, *names: str) -> tuple[int, Any, str]:
    text = reply.text
    for name in names:
        text = text.replace(name, "*")
    headers = sorted((name, value) for name, value in reply.headers.items() if name not in ("Date", "Content-Length"))
    return reply.status, headers, text


async def test_what_is_hidden_is_what_is_not_there(scene: Scene) -> None:
    """On every route that names a document, revision, clause or collection, to the letter."""
    absent_rev = "no-such-doc@2026-06-01"
    hidden = _paths("pay-secret", scene.rev_id, "boardroom")
    absent = _paths("no-such-doc", absent_rev, "nosuchroo")
    async with calling(scene.live, key=scene.keys["bob"]) as bob:
        for (one, _), (other, _) in zip(hidden, absent, strict=True):
            first = await bob.get(one, headers={"X-Request-Id": "r"})
            second = await bob.get(other, headers={"X-Request-Id": "r"})
            assert first.status in (404, 200), (one, first.text)
            assert first.status == 404 or "affected" in one
            names = (scene.rev_id, absent_rev, "pay-secret", "no-such-doc", "boardroom", "nosuchroo")
            assert _told(first, *names) == _told(second, *names), one


async def test_a_key_decides_and_nothing_in_the_request(scene: Scene) -> None:
    """No header or parameter widens what a caller may see."""
    async with calling(scene.live, key=scene.keys["bob"]) as bob:
        reply = await bob.get(
            "/knowledge/documents/pay-secret?labels=hr&label=hr&tenant=other", headers={"X-User-Id": "ann"}
        )
        assert reply.status == 404


async def test_a_revision_that_was_open_does_not_open_a_closed_one(scene: Scene) -> None:
    """Of a document whose later revision is labelled, who lacks the label is shown the earlier one at most, and no id
    of the later."""
    async with calling(scene.live, key=scene.keys["root"]) as root:
        first = await taken(root, "mixed.md", LEAVE, doc_id="mixed")
        later = await taken(root, "mixed.md", AMENDED, doc_id="mixed", label="hr")
    async with calling(scene.live, key=scene.keys["bob"]) as bob:
        for path in ("/knowledge/documents/mixed", f"/knowledge/revisions/{first['rev_id']}"):
            assert later["rev_id"] not in (await bob.get(path)).text
        assert (await bob.get(f"/knowledge/revisions/{later['rev_id']}")).status == 404
        pair = f"before={first['rev_id']}&after={later['rev_id']}"
        assert (await bob.get(f"/knowledge/diff?{pair}")).status == 404


async def test_hidden_and_absent_take_the_same(tmp_path: Path) -> None:
    """The medians of probes of a large hidden document and of one that is not there differ by no more than halves of
    the latter do."""
    async with opened(tmp_path) as scene:
        services = scene.app._app.state.services  # pyright: ignore[reportFunctionMemberAccess]
        operator = (await services.access.create(OPERATOR, "root", "admin", expires=None)).token
        large = "# 大\n\n" + "\n\n".join(f"第{n}条 内容 {n}。" for n in range(1, 400))
        query = "name=large.md&doc_id=large-doc&label=hr&effective=2026-01-01"
        status, text, _ = await request(scene.app, "POST", "/knowledge/documents", operator, large.encode(), query)
        assert status == 201, text
        for path in ("/knowledge/documents/{}", "/knowledge/revisions/{}@2026-01-01"):
            for attempt in range(TRIES):
                times = await _measured(scene.app, path, scene.key)
                if times.difference <= times.halves:
                    break
                assert attempt < TRIES - 1, f"{path}: {times.said()}"


async def _measured(app: Asgi, path: str, key: str) -> Times:
    times: dict[str, list[int]] = {"large-doc": [], "absent-do": []}
    for number in range(PROBES // 10):
        for doc_id in sorted(times, reverse=bool(number % 2)):
            status, _, took = await request(app, "GET", path.format(doc_id), key)
            assert status == 404
            times[doc_id].append(took)
    return Times(times["large-doc"], times["absent-do"])


async def test_a_difference_would_be_seen(tmp_path: Path) -> None:
    """An application that works a little longer on ids that are hidden does not pass."""
    async with opened(tmp_path) as scene:

        async def leaky(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            until = perf_counter_ns() + (8 * LEAK_NS if "large-doc" in scope["path"] else 0)
            while perf_counter_ns() < until:
                pass
            await scene.app(scope, receive, send)

        times = await _measured(leaky, "/knowledge/documents/{}", scene.key)
        assert times.difference > times.halves, times.said()
