"""Idempotency-Key: the same request joins the run that it began, another one is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.client import Page
from tests.api.fakes import Fakes, call, final
from tests.api.kit import Api, Live, calling, read_all, serving

FAKES = Fakes()
RULES: list[dict[str, Any]] = [
    {"match": "^slow", "replies": [call("wait", seconds=0.5), final("slept")]},
    {"match": "^fail", "replies": [{"error": {"detail": "down"}}]},
    {"replies": [final("hello")]},
]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("idem"), RULES, FAKES.tools()) as made:
        yield made


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


async def test_the_same_request_joins_its_run(api: Api) -> None:
    """The second answer is the first, marked as a replay, however its JSON was written."""
    first = await api.post("/agent", {"message": "hi", "conversation_id": "c"}, headers=keyed("k1"))
    body = b' { "conversation_id":"c",\n"message":"\\u0068i" , "use_rag": null} '
    second = await api.send("POST", "/agent", data=body, headers=keyed("k1"))
    assert "Idempotent-Replay" not in first.headers
    assert second.headers["Idempotent-Replay"] == "true"
    assert second.json == first.json


async def test_it_joins_while_the_run_goes_on(api: Api, live: Live) -> None:
    """Ten at once, with and without streaming, are one run and one tool call."""
    before = live.ask(live.services.journal.tip())

    async def streamed() -> tuple[str, Any]:
        page = Page()
        async with api.stream("slow", headers=keyed("k2")) as response:
            await read_all(response, page)
            assert page.end is not None
            return page.meta["trace_id"], response.headers.get("Idempotent-Replay")

    async def plain() -> tuple[str, Any]:
        reply = await api.post("/agent", {"message": "slow"}, headers=keyed("k2"))
        assert reply.json["answer"] == "slept"
        return reply.json["trace_id"], reply.headers.get("Idempotent-Replay")

    found = await asyncio.gather(*(streamed() if i % 2 else plain() for i in range(10)))
    assert len({trace for trace, _ in found}) == 1
    assert sorted(str(replayed) for _, replayed in found) == ["None"] + ["true"] * 9
    records = live.ask(live.services.journal.changes(before))
    assert [r.kind for r in records].count("tool_intended") == 1


async def test_it_outlives_the_end_of_the_run_whatever_the_end(api: Api) -> None:
    """A failed run is joined too: who wants another try sends another key."""
    first = await api.post("/agent", {"message": "fail"}, headers=keyed("k3"))
    again = await api.post("/agent", {"message": "fail"}, headers=keyed("k3"))
    other = await api.post("/agent", {"message": "fail"}, headers=keyed("k4"))
    assert first.json["status"] == "failed"
    assert again.json["trace_id"] == first.json["trace_id"]
    assert other.json["trace_id"] != first.json["trace_id"]


@pytest.mark.parametrize(
    "changed", [{"message": "ho"}, {"tools": []}, {"subject": "s"}, {"as_of": "2026-01-01"}, {"conversation_id": "x"}]
)
async def test_another_body_is_refused(api: Api, changed: dict[str, Any]) -> None:
    """Whatever differs, the key stands for the first request, and no run is begun."""
    await api.post("/agent", {"message": "hi"}, headers=keyed("k5"))
    reply = await api.post("/agent", {"message": "hi"} | changed, headers=keyed("k5"))
    assert (reply.status, reply.json["code"]) == (422, "idempotency_mismatch")


async def test_a_key_is_of_one_route_and_one_user(api: Api, live: Live) -> None:
    """The same key on the other route, or from somebody else, begins a run of its own."""
    body = {"message": "hi"}
    async with calling(live, "bob") as bob:
        replies = [
            await api.post("/agent", body, headers=keyed("k6")),
            await api.post("/chat", body, headers=keyed("k6")),
            await bob.post("/agent", body, headers=keyed("k6")),
        ]
    assert len({reply.json["trace_id"] for reply in replies}) == 3
    assert not any("Idempotent-Replay" in reply.headers for reply in replies)


async def test_the_record_does_not_confirm_a_guess(api: Api) -> None:
    """What is kept of the body to compare with is made under the key of its owner, so that it goes with it."""
    digests = []
    for user in ("ann", "bob"):
        headers = keyed("k7") | {"X-User-Id": user}
        trace = (await api.post("/agent", {"message": "hi"}, headers=headers)).json["trace_id"]
        digests.append((await api.get(f"/admin/agent-traces/{trace}")).json["events"][0]["body"]["digest"])
    assert digests[0] != digests[1]


async def test_a_key_survives_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It lives as long as its run."""
    data = tmp_path_factory.mktemp("again")
    traces = []
    for _ in range(2):
        with serving(data, RULES) as live:
            async with calling(live) as api:
                traces.append((await api.post("/agent", {"message": "hi"}, headers=keyed("k8"))).json["trace_id"])
    assert traces[0] == traces[1]
