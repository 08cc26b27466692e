"""Refusals on record: whom, what, how often, by the minute; by ids, and never more than a bounded number of facts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from devassist.api.auth import CALLER
from devassist.api.problems import CODE
from devassist.api.refusals import MOST, Refusals, network
from devassist.core.scope import Scope
from devassist.core.signals import Fact
from devassist.ports.journal import Record
from devassist.runtime.view import decoded
from tests.api.kit import OPERATOR, Live, calling, serving

HERE = "@127.0.0.1"


def records(live: Live) -> list[Record]:
    async def read() -> list[Record]:
        head = await live.services.heads.named(OPERATOR, "access", "refusals")
        return [] if head is None else await live.services.journal.read(OPERATOR, head.stream)

    return live.ask(read())


def counted(live: Live) -> Counter[tuple[str | None, str]]:
    """How often whom which code; minutes added up. Each fact names a whole minute."""
    facts = [event for event, _, _ in decoded(records(live)) if isinstance(event, Fact)]
    names = live.ask(live.services.vault.load(frozenset(bytes.fromhex(fact.actor) for fact in facts)))
    found: Counter[tuple[str | None, str]] = Counter()
    for fact in facts:
        data, name = dict(fact.data), names[bytes.fromhex(fact.actor)]
        assert (fact.name, data.keys()) == ("refused", {"code", "count", "minute_ms"})
        assert int(data["minute_ms"]) % 60_000 == 0
        found[name.name if name else None, data["code"]] += int(data["count"])
    return found


async def test_refusals_are_counted_by_who_and_why(tmp_path: Path) -> None:
    """Without a key by address, with one by user; foreign ids are told from absent ones, on record alone. Nothing that
    was counted is lost when the service stops."""
    with serving(tmp_path) as live:
        ann, bob, root = live.key("ann"), live.key("bob"), live.key("root", "admin")
        async with calling(live, key=ann) as api:
            mine = await api.ask("你好", conversation_id="anns")
        async with calling(live) as nobody:
            for _ in range(3):
                assert (await nobody.get("/agents")).status == 401
            assert (await nobody.get("/agents", headers={"Authorization": f"Bearer {ann}x"})).status == 401
            assert (await nobody.post("/agent", {}, headers={"Origin": "https://evil.example"})).status == 403
            assert (await nobody.get("/nothing")).status == 404
        async with calling(live, key=bob) as api:
            for _ in range(2):
                assert (await api.get("/admin/decision-log")).status == 403
            for path in (f"/runs/{mine['trace_id']}", f"/runs/{mine['trace_id']}/events", "/conversations/anns"):
                assert (await api.get(path)).status == 404
            assert (await api.post("/agent", {"message": "x", "replaces": mine["trace_id"]})).status == 404
            for path in ("/runs/" + "0" * 32, "/runs/x", "/conversations/none", "/runs/" + "x" * 5000):
                assert (await api.get(path)).status == 404
        async with calling(live, key=ann) as api:
            assert (await api.get(f"/runs/{mine['trace_id']}/payloads/none")).status == 404
        async with calling(live, key=root) as api:
            assert (await api.get("/runs/" + "0" * 32)).status == 404
    with serving(tmp_path) as live:
        assert counted(live) == {
            (HERE, "unauthorised"): 4,
            (HERE, "origin_not_allowed"): 1,
            ("bob", "forbidden"): 2,
            ("bob", "not_yours"): 4,
        }
        s = live.services
        head = live.ask(s.heads.named(OPERATOR, "access", "refusals"))
        assert live.ask(s.auditor.verify(OPERATOR, head.stream)).ok
        for record in records(live):
            for name in (b"bob", b"127.0.0.1", mine["trace_id"].encode()):
                assert name not in record.body


async def test_nothing_is_noted_where_nothing_was_refused(tmp_path: Path) -> None:
    """Before keys exist nobody is refused for want of one, and ids that nothing has are no refusal."""
    with serving(tmp_path) as live:
        async with calling(live, "ann") as api:
            await api.ask("你好")
            assert (await api.get("/runs/" + "0" * 32)).status == 404
    with serving(tmp_path) as live:
        assert records(live) == []


def asgi(code: str = "unauthorised", address: str = "10.0.0.1", **more: Any) -> dict[str, Any]:
    return {CODE: code, "client": (address, 1), **more}


async def test_however_many_are_refused_few_facts_are_made(tmp_path: Path) -> None:
    """Beyond a bound, addresses are counted together, and ids are not looked up: every refusal is in some count."""
    with serving(tmp_path) as live:
        refusals = Refusals(live.services)
        for number in range(3 * MOST):
            refusals.note(asgi(address=f"10.0.{number // 250}.{number % 250}"), 401)
        live.ask(refusals.flush())
        found = counted(live)
        assert found.total() == 3 * MOST
        assert found[None, "other"] >= MOST
        assert MOST <= len(records(live)) <= MOST + 2  # the minute may have turned
        for number in range(2 * MOST):
            asked = {CALLER: Scope("default", "eve"), "path_params": {"trace_id": f"{number:032x}"}}
            refusals.note(asgi("run_not_found", **asked), 404)
        live.ask(refusals.flush())
        assert counted(live) - found == {("eve", "unchecked"): MOST}


async def test_a_minute_is_one_fact(tmp_path: Path) -> None:
    """The same refusal of the same caller, many times over, is a number."""
    with serving(tmp_path) as live:
        refusals = Refusals(live.services)
        for _ in range(5000):
            refusals.note(asgi(), 401)
        live.ask(refusals.flush())
        live.ask(refusals.flush())
        assert counted(live) == {("@10.0.0.1", "unauthorised"): 5000}
        assert len(records(live)) <= 2


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("::1", "::1"),
        ("evil\nname", "unknown"),
        ("", "unknown"),
    ],
)
def test_addresses_of_one_network_are_one(address: str, shown: str) -> None:
    """Whoever has a network of 2^64 addresses is one caller; what is no address is not taken for one."""
    assert network({"client": (address, 1)}) == shown


def test_without_an_address_it_is_unknown() -> None:
    """A Unix socket has none."""
    assert network({"client": None}) == network({}) == "unknown"
