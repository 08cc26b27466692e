"""API keys over HTTP: when one is needed, what it opens, and what a refusal tells."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

import apsw
import pytest

from devassist.bootstrap import open_services
from devassist.config import load
from devassist.core.errors import Forbidden, NotFound
from devassist.core.scope import Scope
from devassist.core.signals import Fact
from devassist.runtime.view import decoded
from tests.api.fakes import Fakes, call, final
from tests.api.kit import OPERATOR, Live, Reply, calling, serving

OPEN_TO_ALL = {"/livez", "/readyz", "/health", "/openapi.json", "/"}
ADMINS = {"/metrics", "/admin/agent-traces", "/admin/agent-traces/{trace_id}", "/admin/decision-log"}
SOON_S = 1.0
"""Within what time a server heeds what was done to keys beside it."""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("keys")) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def root(live: Live) -> str:
    """The administrator's key; there is one before any test."""
    return live.key("root", "admin")


def refused(reply: Reply) -> dict[str, Any]:
    """The problem of a 401, without what differs between requests."""
    assert (reply.status, reply.json["code"]) == (401, "unauthorised"), reply.text
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")
    return {name: value for name, value in reply.json.items() if name != "request_id"}


async def document(live: Live) -> dict[str, Any]:
    async with calling(live) as anyone:
        return (await anyone.get("/openapi.json")).json


async def test_before_any_key_everybody_may(tmp_path: Path) -> None:
    """A service without keys serves as before; with its first key X-User-Id counts no more, and all revoked none do."""
    with serving(tmp_path) as live:
        async with calling(live, "alice") as named:
            assert (await named.get("/metrics")).status == 200
            trace_id = (await named.ask("你好"))["trace_id"]
            key = live.key("alice")
            refused(await named.get(f"/runs/{trace_id}"))
            refused(await named.post("/chat", {"message": "你好"}))
        async with calling(live, "bob", key) as alice:
            assert (await alice.get(f"/runs/{trace_id}")).status == 200, "the key says who asks, and no header"
            assert live.ask(live.services.access.revoke(OPERATOR, key[4:16]))
            refused(await alice.get(f"/runs/{trace_id}"))
        assert live.services.access.required
    with serving(tmp_path) as again:
        async with calling(again, "alice") as named:
            refused(await named.get("/agents"))


async def test_every_route_but_the_open_ones_asks_for_a_key(live: Live) -> None:
    """Whatever the document lists, without a key it is 401: nothing is parsed, looked up or begun first."""
    found = await document(live)
    async with calling(live) as anyone:
        for path, operations in found["paths"].items():
            if path in OPEN_TO_ALL:
                continue
            filled = path.replace("{step_index}", "0").replace("{", "").replace("}", "")
            for verb in operations:
                refused(await anyone.send(verb.upper(), filled, json={"message": "你好"}))
        for path in OPEN_TO_ALL:
            assert (await anyone.get(path)).status == 200


async def test_administrators_routes_are_for_administrators(live: Live, root: str) -> None:
    """A user's key gets 403 there, whether or not what it names exists; elsewhere it is served."""
    paths = (await document(live))["paths"]
    assert {path for path in paths if path.startswith("/admin/")} | {"/metrics"} == ADMINS
    async with calling(live, key=root) as admin, calling(live, key=live.key("ann")) as ann:
        trace_id = (await ann.ask("你好"))["trace_id"]
        for path in ADMINS:
            for name in (trace_id, "0" * 32):
                reply = await ann.get(path.format(trace_id=name))
                assert (reply.status, reply.json["code"]) == (403, "forbidden")
            assert (await admin.get(path.format(trace_id=trace_id))).status == 200
        for path in ("/agents", "/tools", "/conversations"):
            assert (await ann.get(path)).status == 200


def wrong(live: Live) -> dict[str, str]:
    """Headers that let nobody in, by what is wrong with them."""
    expired, revoked, other = live.key("ann", expires=1), live.key("ann"), live.key("ann")
    assert live.ask(live.services.access.revoke(OPERATOR, revoked[4:16]))
    return {
        "unknown": f"Bearer dak_{'0' * 12}_{'s' * 43}",
        "expired": f"Bearer {expired}",
        "revoked": f"Bearer {revoked}",
        "another secret": f"Bearer {other[:17]}{'s' * 43}",
        "another case": f"Bearer {other.upper()}",
        "a part": f"Bearer {other[:-1]}",
        "more": f"Bearer {other}x",
        "no key": "Bearer x",
        "empty": "Bearer ",
        "long": f"Bearer {'x' * 7000}",
        "not ASCII": "Bearer dak_é",
    }


async def test_a_wrong_key_says_nothing_of_what_is_wrong(live: Live) -> None:
    """Unknown, expired, revoked, cut, changed: one body, to the letter."""
    async with calling(live) as anyone:
        seen = {
            name: refused(await anyone.get("/agents", headers={"Authorization": header}))
            for name, header in wrong(live).items()
        }
    assert all(body == seen["unknown"] for body in seen.values()), seen


@pytest.mark.parametrize("header", ["", "Basic YTpi", "dak_x", "Bearer"])
async def test_another_scheme_is_no_key(live: Live, header: str) -> None:
    """The refusal says how a key is sent."""
    async with calling(live) as anyone:
        reply = await anyone.get("/agents", headers={"Authorization": header})
    assert reply.status == 401
    assert header == "Bearer" or "Authorization: Bearer" in refused(reply)["detail"]


async def test_the_scheme_is_read_in_any_case(live: Live, root: str) -> None:
    """As RFC 9110 has it."""
    async with calling(live) as anyone:
        assert (await anyone.get("/agents", headers={"Authorization": f"bEARER {root}"})).status == 200


async def test_a_running_server_heeds_what_was_done_beside_it(live: Live) -> None:
    """A key that another process made, revoked or let expire counts within a second."""
    other = await open_services(load({"data_dir": str(live.data)}, {}), drive=False)
    try:
        made = await other.access.create(OPERATOR, "eve", "user", expires=int(time() * 1e6) + 2_500_000)
        lasting = await other.access.create(OPERATOR, "eve", "user", expires=None)
        async with calling(live, key=made.token) as eve, calling(live, key=lasting.token) as also:
            async with asyncio.timeout(SOON_S):
                while (await eve.get("/agents")).status != 200 or (await also.get("/agents")).status != 200:
                    await asyncio.sleep(0.05)
            assert await other.access.revoke(OPERATOR, lasting.key.key_id)
            async with asyncio.timeout(SOON_S):
                while (await also.get("/agents")).status != 401:
                    await asyncio.sleep(0.05)
            async with asyncio.timeout(4):
                while (await eve.get("/agents")).status != 401:
                    await asyncio.sleep(0.05)
    finally:
        await other.close()


def facts(live: Live, name: str) -> list[Fact]:
    """What the stream ``access``/``name`` holds."""

    async def read() -> list[Fact]:
        head = await live.services.heads.named(OPERATOR, "access", name)
        records = [] if head is None else await live.services.journal.read(OPERATOR, head.stream)
        return [event for event, _, _ in decoded(records) if isinstance(event, Fact)]

    return live.ask(read())


async def test_an_open_stream_ends_with_its_key(tmp_path: Path) -> None:
    """Following a run that waits for a person is over soon after the key is revoked; the run itself goes on."""
    rules: list[dict[str, Any]] = [{"match": "^pay", "replies": [call("pay", amount=7), final("paid")]}]
    with serving(tmp_path, rules, Fakes().tools()) as live:
        root, token = live.key("root", "admin"), live.key("ann")
        async with calling(live, key=token) as ann, calling(live, key=root) as admin:
            async with ann.stream("pay") as posted:
                while b"awaiting_approval" not in (line := await posted.content.readline()):
                    assert line, "the stream ended early"
                (row,) = (await admin.get("/admin/agent-traces")).json["traces"]
                async with ann.follow(row["trace_id"]) as followed:
                    assert b"data: " in await followed.content.readline() + await followed.content.readline()
                    assert live.ask(live.services.access.revoke(OPERATOR, token[4:16]))
                    async with asyncio.timeout(10):
                        rest = await followed.content.read() + await posted.content.read()
            assert b'"type":"done"' not in rest
            assert b'"type":"error"' not in rest
            assert (await admin.get(f"/runs/{row['trace_id']}")).json["status"] == "awaiting_approval"


async def test_each_change_is_on_record(live: Live) -> None:
    """Who did what to which key, by ids: no name and no part of the secret stands in a body."""
    token = live.key("carol", "admin")
    live.ask(live.services.access.revoke(OPERATOR, token[4:16]))
    created, revoked = [fact for fact in facts(live, "keys") if dict(fact.data)["key"] == token[4:16]]
    carol = live.ask(live.services.vault.find(OPERATOR, "user", "carol"))
    operator = live.ask(live.services.vault.find(OPERATOR, "user", OPERATOR.actor))
    assert (created.name, created.actor) == ("key_created", operator.hex())
    assert dict(created.data) == {"key": token[4:16], "owner": carol.hex(), "role": "admin", "expires": "never"}
    assert (revoked.name, revoked.actor, dict(revoked.data)) == ("key_revoked", operator.hex(), {"key": token[4:16]})


async def test_no_file_holds_a_key(tmp_path: Path) -> None:
    """Neither the secret nor its digest is in the journal, the log or anything else but the key store, which has the
    digest alone."""
    with serving(tmp_path) as live:
        token = live.key("dora")
        (key,) = [named.key for named in live.ask(live.services.access.list(OPERATOR))]
        async with calling(live, key=token) as dora:
            await dora.ask("你好")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 3
    for path in files:
        content = path.read_bytes()
        assert token[17:].encode() not in content, path
        assert (key.digest in content) == (path.name == "keys.db"), path


async def test_keys_are_the_administrators_business(live: Live) -> None:
    """Whoever is none makes, lists and revokes nothing; a key that never was cannot be revoked."""
    nobody, access = Scope("default", "mallory"), live.services.access
    for attempt in (access.create(nobody, "mallory", "admin", expires=None), access.list(nobody)):
        with pytest.raises(Forbidden):
            live.ask(attempt)
    with pytest.raises(Forbidden):
        live.ask(access.revoke(nobody, "0" * 12))
    with pytest.raises(NotFound):
        live.ask(access.revoke(OPERATOR, "0" * 12))


async def test_a_key_store_that_was_put_back_revives_nothing(tmp_path: Path) -> None:
    """What the journal has as revoked is revoked again at the next start; and a key store that lost all its keys opens
    the service to nobody."""
    with serving(tmp_path) as live:
        token, kept = live.key("fred"), live.key("gina")
    store = tmp_path / "data.keys" / "keys.db"
    before = store.read_bytes()
    with serving(tmp_path) as live:
        assert live.ask(live.services.access.revoke(OPERATOR, token[4:16]))
        assert not live.ask(live.services.access.revoke(OPERATOR, token[4:16]))
    store.write_bytes(before)
    with serving(tmp_path) as live:
        async with calling(live, key=token) as fred, calling(live, key=kept) as gina:
            refused(await fred.get("/agents"))
            assert (await gina.get("/agents")).status == 200
    apsw.Connection(str(store)).execute("DELETE FROM api_keys")
    with serving(tmp_path) as live:
        async with calling(live, "gina", kept) as gina:
            refused(await gina.get("/agents"))


async def test_an_erased_user_s_keys_open_nothing(live: Live) -> None:
    """With the domain goes the name that a key speaks for; a new user of that name does not get the old key."""
    token = live.key("hana")
    s = live.services
    async with calling(live, key=token) as hana:
        assert (await hana.get("/agents")).status == 200
        domain = live.ask(s.vault.find(OPERATOR, "user", "hana"))
        live.ask(s.vault.destroy(OPERATOR, domain))
        s.access.forget(domain)
        refused(await hana.get("/agents"))
        again = live.key("hana")
        refused(await hana.get("/agents"))
    async with calling(live, key=again) as hana:
        assert (await hana.get("/agents")).status == 200
    users = {named.key.key_id: named.user for named in live.ask(s.access.list(OPERATOR))}
    assert (users[token[4:16]], users[again[4:16]]) == (None, "hana")


async def test_the_document_says_how_to_authenticate(live: Live) -> None:
    """A bearer scheme, and 401 and 403 among the refusals."""
    found = await document(live)
    assert found["components"]["securitySchemes"]["key"] == {"type": "http", "scheme": "bearer"}
    assert {"401", "403"} <= found["paths"]["/chat"]["post"]["responses"].keys()
    assert json.dumps(found["security"])
