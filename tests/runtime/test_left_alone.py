"""Runs that cannot go on, and runs that another build has to drive."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from devassist.core.event_codec import encode
from devassist.core.events import RunFailed, RunStarted
from devassist.core.scope import SYSTEM
from devassist.ports.journal import Body
from tests.runtime.rig import USER, rig


async def test_a_run_whose_texts_are_erased_ends() -> None:
    """An open run of an erased domain fails with a reason that anyone may read, and nothing of it is driven."""
    async with rig(["Action: final: never"], open_service=False) as made:
        prepared, started, _ = await made.prepare(USER, made.start_run("my secret"))
        await made.journal.begin(USER, replace(prepared, lease_until=0))
        await made.vault.destroy(USER, bytes.fromhex(started.domain))
        await made.service.open(sole_driver=True)
        view = await made.service.wait(USER, prepared.stream)
        failed = view.placed[-1][0]
        assert isinstance(failed, RunFailed)
        assert (failed.code, [e.kind for e in view.events]) == ("text_erased", ["run_started", "run_failed"])
        assert view.texts[failed.message] == "The run ends here: its texts were erased."


async def test_a_run_with_an_unknown_flag_is_left_to_another_worker() -> None:
    """It is neither claimed nor touched."""
    async with rig(["Action: final: never"], open_service=False) as made:
        prepared, started, _ = await made.prepare(USER, made.start_run())
        assert isinstance(started, RunStarted)
        body = Body("run_started", encode(replace(started, flags=("of_tomorrow",))))
        await made.journal.begin(USER, replace(prepared, lease_until=0, body=body, flags="of_tomorrow"))
        await made.service.open(sole_driver=True)
        await asyncio.sleep(0.05)
        head = await made.journal.head(SYSTEM, prepared.stream)
        assert (head.epoch, head.head_seq, head.state) == (0, 0, "INIT")
