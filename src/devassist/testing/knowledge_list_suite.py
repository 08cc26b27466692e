"""Conformance of a store to the port KnowledgeStore: its lists, who sees what in them, and what followers are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from devassist.core.errors import Unavailable
from devassist.ports.knowledge_store import Eligible, KnowledgeStore
from devassist.testing.knowledge_kit import ALICE, NOW, T0, deletion, digest, first, found, keys, put, revision

V1 = revision("rules", "2024-01-01", "alpha one", "alpha two", "alpha three")
V2 = revision("rules", "2025-01-01", "alpha one", "beta two")


class KnowledgeListSuite:
    # -- lists ---------------------------------------------------------------------------------------------------

    async def test_documents_say_what_holds_and_why_nothing_does(self, store: KnowledgeStore) -> None:
        """In force, not yet, ended; the deleted ones are not listed."""
        await put(store, V1, V2, revision("later", "2030-01-01", "x"), revision("gone", "2020-01-01", "x"))
        await put(store, revision("over", "2020-01-01", "x"), valid_to="2021-01-01")
        await store.commit(ALICE, [await deletion(store, "gone")], T0)
        rows, after = await store.documents(ALICE, NOW)
        assert after is None
        assert [(d.doc_id, d.state, d.rev_id, d.revisions, d.clauses) for d in rows] == [
            ("later", "not_yet", None, 1, 1),
            ("over", "ended", None, 1, 1),
            ("rules", "in_force", V2.rev_id, 2, 2),
        ]
        (then,) = (await store.documents(ALICE, Eligible("2024-12-31", doc_ids=("rules",))))[0]
        assert (then.rev_id, then.valid_from, then.valid_to) == (V1.rev_id, "2024-01-01", "2025-01-01")
        assert await store.collections(ALICE) == [("policies", 3, 7)]

    async def test_documents_come_in_pages(self, store: KnowledgeStore) -> None:
        """By id, each once, and the last page says that it is; a text looks in titles and ids."""
        names = [f"doc-{n:02}" for n in range(7)]
        await store.commit(ALICE, [first(revision(n, "2024-01-01", "x", title=f"Title {n[-1]}")) for n in names], T0)
        seen: list[str] = []
        after = None
        while True:
            page, after = await store.documents(ALICE, NOW, after=after, limit=3)
            seen += [d.doc_id for d in page]
            if after is None:
                break
        assert seen == names
        assert [d.doc_id for d in (await store.documents(ALICE, NOW, text="TITLE 4"))[0]] == ["doc-04"]
        assert [d.doc_id for d in (await store.documents(ALICE, NOW, text="c-02"))[0]] == ["doc-02"]
        assert (await store.documents(ALICE, NOW, text="%"))[0] == []

    async def test_labels_hide_documents_in_every_list(self, store: KnowledgeStore) -> None:
        """Who has none of a document's labels learns nothing of it, nor of a later revision that is labelled."""
        secret = revision("secret", "2024-01-01", "omega", labels=("hr", "board"), collection="board")
        await put(store, V1, secret, replace(V2, labels=("hr",)))
        nobody, clerk = frozenset[str](), frozenset({"hr"})
        assert [d.doc_id for d in (await store.documents(ALICE, replace(NOW, labels=clerk)))[0]] == ["rules", "secret"]
        (row,) = (await store.documents(ALICE, replace(NOW, labels=nobody)))[0]
        assert (row.doc_id, row.revisions, row.state) == ("rules", 1, "ended")
        assert [name for name, _, _ in await store.collections(ALICE, clerk)] == ["board", "policies"]
        assert await store.collections(ALICE, nobody) == [("policies", 1, 3)]
        assert await found(store, "omega", replace(NOW, labels=nobody)) == []
        assert await found(store, "omega", replace(NOW, labels=clerk)) == ["secret@2024-01-01#c-0"]
        old = Eligible("2024-06-01", labels=nobody)
        (hidden,) = await keys(store, ["secret@2024-01-01#c-0"])
        mine = await keys(store, [V1.clauses[0].clause_id])
        (shown,) = await store.clauses(ALICE, [hidden, *mine], old)
        assert shown.latest_rev == V1.rev_id
        assert await store.withheld(ALICE, replace(NOW, labels=nobody)) == 3
        assert await store.withheld(ALICE, replace(NOW, labels=nobody, collections=("board",))) == 1
        assert await store.withheld(ALICE, replace(NOW, labels=clerk)) == await store.withheld(ALICE, NOW) == 0

    # -- following -----------------------------------------------------------------------------------------------

    async def test_the_outbox_tells_what_an_index_has_to_do(self, store: KnowledgeStore) -> None:
        """New clauses and those whose days changed are put; those that are believed no more, or purged, are removed."""
        assert await store.head() == 0
        await put(store, V1)
        new = await store.outbox(0, 100)
        assert [(r.op, r.rev_id, r.text_sha256) for r in new] == [
            ("upsert", V1.rev_id, c.text_sha256) for c in V1.clauses
        ]
        assert await store.head() == new[-1].seq
        await put(store, V2)
        more = await store.outbox(new[-1].seq, 100)
        assert [(r.op, r.rev_id) for r in more] == [("upsert", V1.rev_id)] * 3 + [("upsert", V2.rev_id)] * 2
        corrected = revision("rules", "2025-01-01", "alpha one", "gamma two", rev_id="rules@2025-01-01.1")
        await put(store, corrected)
        again = await store.outbox(more[-1].seq, 100)
        assert [(r.op, r.rev_id) for r in again] == [("remove", V2.rev_id)] * 2 + [("upsert", corrected.rev_id)] * 2
        assert await store.outbox(more[-1].seq, 1) == again[:1]
        head = await store.commit(ALICE, [await deletion(store, "rules")], T0)
        last = await store.outbox(again[-1].seq, 100)
        assert {(r.op, r.rev_id) for r in last} == {("remove", V1.rev_id), ("remove", corrected.rev_id)}
        assert head == await store.head() == last[-1].seq

    async def test_items_hold_what_is_believed_now(self, store: KnowledgeStore) -> None:
        """Days as numbers, a text with title and headings but neither number nor days; nothing of what is gone."""
        await put(store, replace(V1, clauses=(replace(V1.clauses[0], headings=("Part", "One")), *V1.clauses[1:])), V2)
        everything = await store.all_keys(0, 100)
        assert everything == sorted(everything)
        assert await store.all_keys(everything[1], 2) == everything[2:4]
        items = await store.items(everything)
        assert [(i.key, i.valid_from, i.valid_to) for i in items] == [
            *((key, 20240101, 20250101) for key in everything[:3]),
            *((key, 20250101, 99991231) for key in everything[3:]),
        ]  # fmt: skip
        assert items[0].embed_text == "Rules\nPart\nOne\nalpha one"
        assert items[0].embed_sha256 == digest(items[0].embed_text)
        assert (items[3].text_sha256, items[3].collection, items[3].lang) == (digest("alpha one"), "policies", "zh")
        await store.commit(ALICE, [await deletion(store, "rules")], T0)
        assert await store.items(everything) == []
        assert await store.all_keys(0, 100) == []

    async def test_a_change_is_noted_for_each_plan(self, store: KnowledgeStore) -> None:
        """Who changed what, when and why, in order."""
        await put(store, V1)
        await store.commit(ALICE, [await deletion(store, "rules")], T0 + 7)
        one, two = await store.changes(0, 10)
        assert (one.at, one.actor, one.doc_id, one.rev_id, one.reason, one.content_sha256) == (
            T0, "alice", "rules", V1.rev_id, "ingested", V1.content_sha256,
        )  # fmt: skip
        assert (two.at, two.reason, two.rev_id) == (T0 + 7, "deleted", None)
        assert await store.changes(one.seq, 10) == [two]

    async def test_embeddings_are_kept_by_embedder_and_text(self, store: KnowledgeStore) -> None:
        """Another embedder's vectors are others; the first that is kept of a text stays."""
        await store.keep_embeddings("e/1", {"a": b"\x01\x02", "b": b"\x03"})
        await store.keep_embeddings("e/1", {"a": b"\x09"})
        await store.keep_embeddings("e/2", {"a": b"\x04"})
        assert await store.embeddings("e/1", ["a", "b", "c"]) == {"a": b"\x01\x02", "b": b"\x03"}
        assert await store.embeddings("e/2", ["a", "b"]) == {"a": b"\x04"}
        assert await store.embeddings("e/3", ["a"]) == {}

    async def test_a_follower_is_where_it_was_set(self, store: KnowledgeStore) -> None:
        """0 at first, each by itself."""
        assert await store.applied("one") == 0
        await store.set_applied("one", 7)
        await store.set_applied("one", 9)
        assert (await store.applied("one"), await store.applied("two")) == (9, 0)

    async def test_a_closed_store_says_so(self, store: KnowledgeStore) -> None:
        """Closing twice is no fault; reading and writing afterwards is refused."""
        await put(store, V1)
        await store.close()
        await store.close()
        for late in (store.head(), store.beliefs(ALICE, "rules"), store.commit(ALICE, [], T0), store.titles(ALICE)):
            with pytest.raises(Unavailable):
                await late
