"""Conformance of a store to the port Heads: turns, leases, timers, admission, Idempotency-Keys, the list view."""

from __future__ import annotations

import asyncio

import pytest

from devassist.core.errors import ConversationBusy, IdempotencyMismatch, Overloaded, RunNotFound
from devassist.core.heads import HeadFields
from devassist.core.scope import SYSTEM, Scope
from devassist.ports.journal import HeadQuery
from devassist.testing.journal_kit import ALICE, BOB, DECIDING, HELD, LEASE, STRANGER, T0, Made, body

LATER = T0 + 100 * LEASE


class HeadsSuite:
    # -- turns ---------------------------------------------------------------------------------------------------

    async def test_of_many_begins_in_one_conversation_exactly_one_is_claimed(self, make: Made) -> None:
        """All get their INIT, one gets the turn with epoch 1, the others wait."""
        runs = [await make.run(conversation="c", claim=True) for _ in range(50)]
        begun = await asyncio.gather(*(make.journal.begin(ALICE, run) for run in runs))
        assert all(b.created for b in begun)
        (claimed,) = [b for b in begun if b.claimed]
        assert (claimed.head.epoch, claimed.head.driving, claimed.head.lease_until) == (1, True, T0 + LEASE)
        heads = await make.journal.list(ALICE, HeadQuery(conversation="c", limit=100))
        assert sorted(h.driving for h in heads) == [False] * 49 + [True]
        assert {h.epoch for h in heads if not h.driving} == {0}

    async def test_the_turn_passes_to_the_oldest_waiting_run(self, make: Made) -> None:
        """The event that ends a run wakes the next, which alone can then be claimed; and so on to the last."""
        first, second, third = [await make.begun(conversation="c") for _ in range(3)]
        for waiting in (second, third):
            assert await make.journal.claim(ALICE, waiting.stream, LATER, LATER + 1) is None
            assert not await make.is_due(waiting, LATER)
        assert (await make.end(first, at=T0 + 9)).woken == second.stream
        ended = await make.journal.head(ALICE, first.stream)
        assert (ended.driving, ended.lease_until, ended.state) == (False, 0, "FINAL_ANSWER")
        assert (await make.journal.head(ALICE, second.stream)).wake_at == T0 + 9
        assert await make.journal.claim(ALICE, third.stream, LATER, LATER + 1) is None
        assert [await make.is_due(run, LATER) for run in (first, second, third)] == [False, True, False]
        assert await make.journal.claim(ALICE, second.stream, LATER, LATER + LEASE) == 1
        assert (await make.end(second)).woken == third.stream
        assert await make.journal.claim(ALICE, third.stream, LATER, LATER + LEASE) == 1
        assert (await make.end(third)).woken is None

    async def test_a_newcomer_does_not_jump_the_queue(self, make: Made) -> None:
        """A run that is begun between an end and the next claim waits behind those that waited before."""
        first, _second = [await make.begun(conversation="c") for _ in range(2)]
        await make.end(first)
        assert not (await make.journal.begin(ALICE, await make.run(conversation="c", claim=True))).claimed

    async def test_a_parked_run_keeps_its_turn(self, make: Made) -> None:
        """Waiting for a person without a lease, it still holds the conversation."""
        first, second = [await make.begun(conversation="c") for _ in range(2)]
        await make.append(first, 0, body("held"), head=HELD)
        await make.journal.release(ALICE, [(first.stream, 1)])
        assert await make.journal.claim(ALICE, second.stream, LATER, LATER + 1) is None
        assert await make.journal.claim(ALICE, first.stream, T0, T0 + LEASE) == 2

    async def test_a_waiting_run_that_is_signalled_still_waits_its_turn(self, make: Made) -> None:
        """News for it are no reason to drive it: ``due`` names only what can be claimed."""
        _first, second = [await make.begun(conversation="c") for _ in range(2)]
        await make.journal.signal(ALICE, second.stream, "s", body("cancel_requested"), T0)
        assert not await make.is_due(second, LATER)
        assert await make.journal.claim(ALICE, second.stream, LATER, LATER + 1) is None

    async def test_a_waiting_run_can_be_claimed_aside(self, make: Made) -> None:
        """To be ended before its turn: it takes no turn, and its end wakes nobody; a driven run is not claimed so."""
        first, second, third = [await make.begun(conversation="c") for _ in range(3)]
        assert await make.journal.claim(ALICE, first.stream, LATER, LATER + 1, aside=True) is None
        assert await make.journal.claim(ALICE, second.stream, LATER, LATER + LEASE, aside=True) == 1
        assert await make.journal.claim(ALICE, second.stream, LATER, LATER + LEASE, aside=True) is None
        assert not (await make.journal.head(ALICE, second.stream)).driving
        assert (await make.end(second, epoch=1)).woken is None
        assert (await make.end(first)).woken == third.stream

    async def test_conversations_are_of_one_actor_in_one_tenant(self, make: Made) -> None:
        """The same name under another user, in another tenant, or no conversation at all: nobody waits."""
        for scope in (ALICE, BOB, STRANGER):
            assert (await make.journal.begin(scope, await make.run(scope, conversation="c", claim=True))).claimed
        for _ in range(2):
            assert (await make.journal.begin(ALICE, await make.run(claim=True))).claimed

    async def test_children_take_no_turn(self, make: Made) -> None:
        """A run whose root is another one is driven beside it, and its end wakes nobody."""
        root = await make.begun(conversation="c")
        waiting = await make.begun(conversation="c")
        child = await make.run(conversation="c", root=root.stream, claim=True)
        assert (await make.journal.begin(ALICE, child)).claimed
        assert (await make.end(child)).woken is None
        assert (await make.end(root)).woken == waiting.stream

    async def test_a_busy_conversation_can_refuse(self, make: Made) -> None:
        """``busy='reject'`` raises ConversationBusy while a run is open, and lets the next one in afterwards."""
        first = await make.begun(conversation="c", busy="reject")
        with pytest.raises(ConversationBusy):
            await make.begun(conversation="c", busy="reject")
        await make.end(first)
        await make.begun(conversation="c", busy="reject")

    # -- leases --------------------------------------------------------------------------------------------------

    async def test_a_lease_is_held_until_it_passes(self, make: Made) -> None:
        """A claim within it fails, one after it raises the epoch."""
        run = await make.begun(claim=False)
        assert (await make.journal.head(ALICE, run.stream)).epoch == 0
        assert await make.journal.claim(ALICE, run.stream, T0, T0 + LEASE) == 1
        assert await make.journal.claim(ALICE, run.stream, T0 + LEASE - 1, LATER) is None
        assert await make.journal.claim(ALICE, run.stream, T0 + LEASE, LATER) == 2
        head = await make.journal.head(ALICE, run.stream)
        assert (head.epoch, head.driving, head.lease_until) == (2, True, LATER)

    async def test_of_many_claims_one_wins(self, make: Made) -> None:
        """Concurrent claims on a free run: one epoch is given, once."""
        run = await make.begun(claim=False)
        claims = await asyncio.gather(*(make.journal.claim(ALICE, run.stream, T0, T0 + LEASE) for _ in range(10)))
        assert sorted(claims, key=lambda c: c or 0) == [None] * 9 + [1]

    async def test_renewing_extends_and_names_what_was_lost(self, make: Made) -> None:
        """A lease taken over, and one of a stream that never was, is lost; the others hold longer."""
        kept, lost = [await make.begun() for _ in range(2)]
        assert await make.journal.claim(ALICE, lost.stream, T0 + LEASE, LATER) == 2
        leases = [(kept.stream, 1), (lost.stream, 1), (bytes(16), 1)]
        assert await make.journal.renew(ALICE, leases, T0 + 2 * LEASE) == [lost.stream, bytes(16)]
        assert await make.journal.claim(ALICE, kept.stream, T0 + LEASE, LATER) is None
        assert (await make.journal.head(ALICE, lost.stream)).lease_until == LATER

    async def test_a_released_run_is_free_at_once(self, make: Made) -> None:
        """A release under an old epoch does nothing."""
        run = await make.begun()
        await make.append(run, 0)
        await make.journal.release(ALICE, [(run.stream, 7)])
        assert await make.journal.claim(ALICE, run.stream, T0, LATER) is None
        await make.journal.release(ALICE, [(run.stream, 1)])
        assert await make.is_due(run, T0)
        assert await make.journal.claim(ALICE, run.stream, T0, LATER) == 2

    async def test_a_closed_run_cannot_be_claimed(self, make: Made) -> None:
        """Nor is it due."""
        run = await make.begun()
        await make.end(run)
        assert await make.journal.claim(ALICE, run.stream, LATER, LATER) is None
        assert not await make.is_due(run, LATER)

    async def test_reclaim_voids_all_leases(self, make: Made) -> None:
        """After it what was driven is due at once, and what was parked is not."""
        driven, parked = [await make.begun() for _ in range(2)]
        await make.append(driven, 0, head=DECIDING)
        await make.append(parked, 0, body("held"), head=HELD)
        await make.journal.release(ALICE, [(parked.stream, 1)])
        assert not await make.is_due(driven, T0)
        assert await make.journal.reclaim(SYSTEM) == 1
        assert [await make.is_due(run, T0) for run in (driven, parked)] == [True, False]
        assert await make.journal.claim(ALICE, driven.stream, T0, T0 + LEASE) == 2

    # -- due -----------------------------------------------------------------------------------------------------

    async def test_due_names_what_a_driver_should_take(self, make: Made) -> None:
        """A begun run that nobody claimed, one whose lease has passed, one whose time has come; none held or parked."""
        new, held, late = await make.begun(claim=False), await make.begun(), await make.begun()
        timer, parked = await make.begun(), await make.begun()
        await make.append(late, 0)
        await make.append(timer, 0, body("wait_begun"), head=HeadFields("WAIT", driving=True, wake_at=T0 + 50))
        await make.append(parked, 0, body("held"), head=HELD)
        await make.journal.release(ALICE, [(timer.stream, 1), (parked.stream, 1)])
        await make.journal.renew(ALICE, [(held.stream, 1)], LATER)
        everything = [new, held, late, timer, parked]
        assert [await make.is_due(r, T0 + 49) for r in everything] == [True, False, False, False, False]
        assert [await make.is_due(r, T0 + LEASE) for r in everything] == [True, False, True, True, False]
        await make.journal.signal(ALICE, parked.stream, "s", body("approval_given"), T0 + 60)
        assert await make.is_due(parked, T0 + 60)
        assert len(await make.journal.due(ALICE, T0 + LEASE, limit=2)) == 2

    # -- admission and Idempotency-Keys --------------------------------------------------------------------------

    async def test_admission_counts_open_runs(self, make: Made) -> None:
        """Beyond ``max_open`` a begin is Overloaded; an ended run makes room."""
        first = await make.begun(max_open=2)
        await make.begun(max_open=2)
        with pytest.raises(Overloaded):
            await make.begun(max_open=2)
        await make.end(first)
        await make.begun(max_open=2)

    async def test_one_key_is_one_run(self, make: Made) -> None:
        """Concurrent begins under one key make one run that all others join, also when it has ended."""
        init = body("run_started", digest="d1")
        runs = [await make.run(idem=b"k" * 32, digest="d1", body=init, claim=True) for _ in range(10)]
        begun = await asyncio.gather(*(make.journal.begin(ALICE, run) for run in runs))
        (created,) = [b for b in begun if b.created]
        assert {b.head.stream for b in begun} == {created.head.stream}
        assert [b.claimed for b in begun if not b.created] == [False] * 9
        run = next(r for r in runs if r.stream == created.head.stream)
        await make.end(run)
        again = await make.journal.begin(ALICE, await make.run(idem=b"k" * 32, digest="d1", body=init, max_open=1))
        assert (again.created, again.head.stream, again.head.state) == (False, run.stream, "FINAL_ANSWER")

    async def test_a_key_used_for_another_request_is_refused(self, make: Made) -> None:
        """Another digest raises IdempotencyMismatch; another user's or tenant's same key is another key."""
        for scope in (ALICE, BOB, STRANGER):
            await make.begun(scope, idem=b"k" * 32, digest="d1", body=body("run_started", digest="d1"))
        with pytest.raises(IdempotencyMismatch):
            await make.begun(idem=b"k" * 32, digest="d2", body=body("run_started", digest="d2"))
        assert await make.journal.tip() == 3

    async def test_joining_a_run_is_never_refused_for_load(self, make: Made) -> None:
        """A retry under the same key finds its run in a full house and in a busy conversation."""
        init = body("run_started", digest="d1")
        await make.begun(conversation="c", idem=b"k" * 32, digest="d1", body=init)
        retry = await make.run(
            conversation="c", idem=b"k" * 32, digest="d1", body=init, max_open=1, busy="reject", claim=True
        )
        assert not (await make.journal.begin(ALICE, retry)).created

    # -- streams of facts ----------------------------------------------------------------------------------------

    async def test_streams_of_facts_are_found_by_kind(self, make: Made) -> None:
        """Those of the scope's tenant, or of all to the system; runs and other kinds are not among them."""
        await make.begun()
        for scope, name in ((ALICE, "a"), (ALICE, "b"), (STRANGER, "a")):
            await make.journal.note(scope, "erasure", name, [body("fact")], T0)
        await make.journal.note(ALICE, "deploy", "a", [body("fact")], T0)

        async def seen(scope: Scope) -> set[tuple[str, str | None]]:
            return {(head.tenant, head.name) for head in await make.journal.streams(scope, "erasure")}

        assert await seen(ALICE) == {("default", "a"), ("default", "b")}
        assert await seen(SYSTEM) == {("default", "a"), ("default", "b"), ("elsewhere", "a")}
        assert [head.head_seq for head in await make.journal.streams(STRANGER, "erasure")] == [0]

    # -- list ----------------------------------------------------------------------------------------------------

    async def test_the_list_filters_and_pages(self, make: Made) -> None:
        """Newest first, by state, actor, conversation, roots and keyset; facts are no runs."""
        runs = [await make.begun(conversation=f"c{i}", flags="f1") for i in range(5)]
        child = await make.begun(conversation="c0", root=runs[0].stream)
        bobs = await make.begun(BOB)
        theirs = await make.begun(STRANGER)
        await make.journal.note(ALICE, "deploy", "d", [body("fact")], T0)
        await make.end(runs[2])

        async def streams(query: HeadQuery) -> list[bytes]:
            return [head.stream for head in await make.journal.list(ALICE, query)]

        ours = [r.stream for r in (*runs, child, bobs)][::-1]
        assert await streams(HeadQuery()) == ours
        assert await streams(HeadQuery(limit=3)) == ours[:3]
        assert await streams(HeadQuery(before=ours[2], limit=3)) == ours[3:6]
        assert await streams(HeadQuery(since=bobs.stream)) == ours[:1]
        assert await streams(HeadQuery(actor=bobs.actor)) == [bobs.stream]
        assert await streams(HeadQuery(states=("FINAL_ANSWER", "ERROR"))) == [runs[2].stream]
        assert await streams(HeadQuery(conversation="c3")) == [runs[3].stream]
        assert child.stream not in await streams(HeadQuery(roots_only=True))
        assert theirs.stream in [h.stream for h in await make.journal.list(SYSTEM, HeadQuery())]
        head = await make.journal.head(ALICE, child.stream)
        assert (head.tenant, head.kind, head.actor, head.root) == ("default", "run", child.actor, runs[0].stream)
        assert (await make.journal.head(ALICE, runs[0].stream)).flags == "f1"

    # -- one stream ----------------------------------------------------------------------------------------------

    async def test_an_owner_finds_its_own_runs_only(self, make: Made) -> None:
        """A foreign run, one of another tenant, a stream of facts and no stream at all: refused in the same words."""
        mine, bobs, theirs = await make.begun(), await make.begun(BOB), await make.begun(STRANGER)
        await make.journal.note(ALICE, "deploy", "d", [body("fact")], T0)
        noted = await make.journal.named(ALICE, "deploy", "d")
        assert noted is not None
        assert (await make.journal.head(ALICE, mine.stream, mine.actor)).stream == mine.stream
        assert (await make.journal.head(ALICE, bobs.stream)).stream == bobs.stream
        for stream in (bobs.stream, theirs.stream, noted.stream, bytes(15) + b"\x01"):
            with pytest.raises(RunNotFound) as refused:
                await make.journal.head(ALICE, stream, mine.actor)
            assert refused.value.detail == f"no run {stream.hex()}"
        with pytest.raises(RunNotFound):
            await make.journal.head(ALICE, mine.stream, bytes(16))
        with pytest.raises(RunNotFound):
            await make.journal.head(ALICE, theirs.stream, theirs.actor)

    async def test_a_stream_of_facts_is_found_by_its_name(self, make: Made) -> None:
        """Within its tenant and kind; None where nothing was noted, and no run has a name."""
        await make.begun(conversation="d")
        appended = [await make.journal.note(ALICE, "deploy", "d", [body("fact")], T0) for _ in range(2)][-1]
        found = await make.journal.named(ALICE, "deploy", "d")
        assert found is not None
        assert (found.kind, found.name, found.tenant, found.head_seq) == ("deploy", "d", "default", appended.seq)
        assert len(await make.journal.read(ALICE, found.stream)) == 2
        assert await make.journal.named(ALICE, "deploy", "e") is None
        assert await make.journal.named(ALICE, "access", "d") is None
        assert await make.journal.named(STRANGER, "deploy", "d") is None
