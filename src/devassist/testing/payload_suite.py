"""Conformance of a store in what it keeps apart: texts of erasure domains, and tenants."""

from __future__ import annotations

import pytest

from devassist.core.chain import PUBLIC_DOMAIN
from devassist.core.codec import b64
from devassist.core.errors import DevAssistError, PayloadErased, PayloadMissing, RunNotFound, SeqMoved
from devassist.core.scope import SYSTEM
from devassist.testing.journal_kit import ALICE, BOB, STRANGER, T0, Made, body
from devassist.testing.journal_suite import assert_chained


class PayloadSuite:
    # -- payloads ------------------------------------------------------------------------------------------------

    async def test_texts_come_back_by_reference(self, make: Made) -> None:
        """Sealed and public texts, stored with their events, are read by the references that the events name."""
        run = await make.run()
        texts = ["hello", "世界 🌍" * 400, ""]
        sealed = [make.vault.seal(run.actor, t) for t in texts] + [make.vault.seal(PUBLIC_DOMAIN, "definition")]
        refs = [b64(p.ref) for p in sealed]
        run = await make.begun(body=body("run_started", refs=refs), payloads=tuple(sealed))
        assert await make.journal.payloads(ALICE, run.stream, refs) == dict(
            zip(refs, [*texts, "definition"], strict=True)
        )
        stored = await make.journal.raw_payload(SYSTEM, refs[0])
        assert stored is not None
        assert (stored.domain, stored.blob) == (run.actor, sealed[0].blob)
        assert await make.journal.raw_payload(SYSTEM, b64(bytes(32))) is None

    async def test_a_text_is_stored_once_in_its_domain_and_never_across_domains(self, make: Made) -> None:
        """Equal texts of one domain share a row; another domain's equal text is another row, sealed for it alone."""
        alice, bob = [await make.vault.domain(s, "user", s.actor) for s in (ALICE, BOB)]
        first, again, other = (make.vault.seal(d, "equal text") for d in (alice, alice, bob))
        assert first.ref == again.ref != other.ref
        body_ = body("run_started", refs=[b64(first.ref), b64(other.ref)])
        run = await make.begun(body=body_, payloads=(first, again, other))
        await make.append(run, 0, payloads=(again,))
        stored = [await make.journal.raw_payload(SYSTEM, b64(p.ref)) for p in (first, other)]
        assert [(p.domain, p.blob) for p in stored if p] == [(alice, first.blob), (bob, other.blob)]

    async def test_a_missing_text_and_one_of_another_stream_are_not_given_out(self, make: Made) -> None:
        """Only references that the stream's own events name can be read through it."""
        run = await make.run()
        secret = make.vault.seal(run.actor, "another run's text")
        theirs = await make.begun(body=body("run_started", refs=[b64(secret.ref)]), payloads=(secret,))
        mine = await make.begun(body=body("run_started", refs=[b64(bytes(32))]))
        assert await make.journal.payloads(ALICE, theirs.stream, [b64(secret.ref)])
        for ref in (b64(bytes(32)), b64(secret.ref)):
            with pytest.raises(PayloadMissing):
                await make.journal.payloads(ALICE, mine.stream, [ref])

    async def test_an_erased_text_is_gone(self, make: Made) -> None:
        """Once the key is destroyed the text is PayloadErased, even to who just wrote it; the chain still stands."""
        run = await make.run()
        payload = make.vault.seal(run.actor, "to be erased")
        run = await make.begun(body=body("run_started", refs=[b64(payload.ref)]), payloads=(payload,))
        await make.vault.destroy(ALICE, run.actor)
        with pytest.raises(PayloadErased):
            await make.journal.payloads(ALICE, run.stream, [b64(payload.ref)])
        assert_chained(await make.journal.read(ALICE, run.stream))

    async def test_a_refused_append_leaves_no_payload_out_later(self, make: Made) -> None:
        """A payload is known as stored only after its append committed."""
        run = await make.begun()
        payload = make.vault.seal(run.actor, "said once")
        named = body("model_switched", ref=b64(payload.ref))
        with pytest.raises(SeqMoved):
            await make.append(run, 5, named, payloads=(payload,))
        await make.append(run, 0, named, payloads=(payload,))
        ref = b64(payload.ref)
        assert await make.journal.payloads(ALICE, run.stream, [ref]) == {ref: "said once"}

    # -- tenants -------------------------------------------------------------------------------------------------

    async def test_nothing_of_another_tenant_is_visible(self, make: Made) -> None:
        """Every method answers as if the run did not exist; the system scope sees it."""
        run = await make.run()
        payload = make.vault.seal(run.actor, "ours")
        ref = b64(payload.ref)
        run = await make.begun(body=body("run_started", refs=[ref]), payloads=(payload,))
        for attempt in (
            make.journal.read(STRANGER, run.stream),
            make.journal.read(STRANGER, run.stream, after=0),
            make.journal.head(STRANGER, run.stream),
            make.journal.payloads(STRANGER, run.stream, [ref]),
            make.journal.signal(STRANGER, run.stream, "s", body("cancel_requested"), T0),
            make.journal.claim(STRANGER, run.stream, T0 * 2, T0 * 2),
            make.append(run, 0, scope=STRANGER),
            make.journal.raw_events(STRANGER, run.stream),
            make.journal.raw_signals(STRANGER, run.stream),
        ):
            with pytest.raises(RunNotFound):
                await attempt
        assert await make.journal.raw_payload(STRANGER, ref) is None
        with pytest.raises(DevAssistError):
            await make.journal.begin(STRANGER, await make.run())
        assert len(await make.journal.read(SYSTEM, run.stream)) == 1
        assert await make.journal.payloads(SYSTEM, run.stream, [ref]) == {ref: "ours"}

    async def test_reading_what_does_not_exist_is_run_not_found(self, make: Made) -> None:
        """An unknown stream raises, it is not an empty one."""
        for attempt in (make.journal.read(ALICE, bytes(16)), make.journal.head(ALICE, bytes(16)), make.append(
            await make.run(), 0
        )):  # fmt: skip
            with pytest.raises(RunNotFound):
                await attempt
