"""What runs may cost, with real usage and a price list from a file: counted for every attempt, and looked at before
each call."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from devassist.bootstrap import open_services
from devassist.config import load
from devassist.core.errors import ConfigInvalid, Unavailable
from devassist.core.scope import Scope
from devassist.core.view import summary
from devassist.ports.journal import Heads
from devassist.runtime.intake import Submission
from devassist.store.lock import DirectoryLock
from tests.provider.fake import Answer, FakeProvider, provider, throttled
from tests.runtime.world import call, final

LOCAL = Scope("default", "local", frozenset({"user", "admin"}))
ASKS = call("get_policy", keywords="退休")


def priced(path: Path, **models: str) -> str:
    """A price list: per million tokens, the same for input and output."""
    rows = {name.replace("_", "-"): {"input": price, "output": price} for name, price in models.items()}
    path.write_text(json.dumps({"currency": "CNY", "models": rows}), "utf-8")
    return str(path)


async def asked(tmp_path: Path, fake: FakeProvider, **flags: str) -> dict[str, Any]:
    """One question to the agent ``dev`` of a service with these settings."""
    given = {"data_dir": str(tmp_path / "data"), "openai_base_url": fake.base_url, "openai_model": "m-1", **flags}
    services = await open_services(load(given, {}), drive=True)
    try:
        start = await services.intake.prepare(LOCAL, "agent", Submission("how much?", agent="dev"))
        started = await services.service.start(LOCAL, start)
        view = await services.service.wait(LOCAL, started.stream)
        return summary(view.placed, view.text, trace_id=view.stream.hex())
    finally:
        await services.close()


async def test_a_start_that_is_refused_leaves_no_connection(tmp_path: Path) -> None:
    """The agents' model was asked for its name before the chat model turned out to be missing."""
    flags = {"data_dir": str(tmp_path / "data"), "agent_model": "openai", "chat_model": f"scripted:{tmp_path}/none"}
    async with provider([]) as fake:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with pytest.raises(ConfigInvalid):
                await open_services(load(flags | {"openai_base_url": fake.base_url}, {}), drive=True)
            gc.collect()
    assert [str(each.message) for each in said if each.category is ResourceWarning] == []


class Full:
    """A store that takes no release any more; all else is the real one's."""

    def __init__(self, heads: Heads) -> None:
        self._heads = heads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._heads, name)

    async def release(self, scope: Scope, leases: Any) -> None:
        raise Unavailable("the disk is full")


async def test_a_store_that_cannot_be_written_to_is_closed_all_the_same(tmp_path: Path) -> None:
    """The fault is told, nothing goes on in the background, and the directory's lock is given up."""
    settings = load({"data_dir": str(tmp_path / "data"), "agent_model": "extractive"}, {})
    before = asyncio.all_tasks()
    services = await open_services(settings, drive=True)
    services.service.heads = Full(services.heads)
    with pytest.raises(Unavailable):
        await services.close()
    assert asyncio.all_tasks() == before
    DirectoryLock(settings.data_dir).release()


async def test_what_a_run_costs_is_counted_by_the_price_list(tmp_path: Path) -> None:
    """Of every reply, those of steps included; rounded up, in the list's own units."""
    plan = [Answer(ASKS, tokens=(1000, 200)), Answer(final("So much."), tokens=(1500, 100))]
    async with provider(plan) as fake:
        run = await asked(tmp_path, fake, prices=priced(tmp_path / "p.json", **{"m_*": "2.5"}))
    assert run["answer"] == "So much."
    usage = run["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["model_calls"]) == (2500, 300, 2)
    assert usage["cost"] == "0.007"


@pytest.mark.parametrize(
    ("flags", "code"), [({"max_cost": "0.003"}, "cost_limit"), ({"max_tokens": "1200"}, "token_limit")]
)
async def test_no_call_is_made_once_a_limit_is_reached(tmp_path: Path, flags: dict[str, str], code: str) -> None:
    """The call that reached it is the last one, and the run says which limit it was."""
    async with provider([Answer(ASKS, tokens=(1000, 200))]) as fake:
        run = await asked(tmp_path, fake, prices=priced(tmp_path / "p.json", m_1="2.5"), **flags)
    assert (run["error"]["code"], run["error"]["status"], fake.count) == (code, 422, 1)
    assert run["usage"]["tool_calls"] == 1


async def test_a_fallback_has_its_own_price(tmp_path: Path) -> None:
    """Each attempt costs what its model does."""
    async with provider([throttled("60")]) as own, provider([Answer(final("So."), tokens=(1000, 0))]) as spare:
        fallback = json.dumps([{"base_url": spare.base_url, "model": "m-2"}])
        prices = priced(tmp_path / "p.json", m_1="100", m_2="1")
        run = await asked(tmp_path, own, prices=prices, fallback_models=fallback, max_cost="0.01")
    assert (run["answer"], run["usage"]["cost"]) == ("So.", "0.001")


@pytest.mark.parametrize("fallback", [False, True])
async def test_a_cost_limit_without_a_price_is_refused_at_the_start(tmp_path: Path, fallback: bool) -> None:
    """A limit that could not be kept is no limit: the model without a price is named, and where to put it."""
    async with provider([Answer()]) as fake:
        models = json.dumps([{"base_url": fake.base_url, "model": "m-2"}])
        prices = priced(tmp_path / "p.json", **({"m_1": "1"} if fallback else {}))
        flags = {"fallback_models": models} if fallback else {}
        with pytest.raises(ConfigInvalid, match=f"no price for m-{2 if fallback else 1}; name a list"):
            await asked(tmp_path, fake, max_cost="1", prices=prices, **flags)
        run = await asked(tmp_path, fake, prices=prices, **flags)
    assert (run["answer"], run["status"]) == ("Hello", "succeeded"), "without a limit none is needed"


async def test_an_agents_own_cost_limit_needs_a_price_too(tmp_path: Path) -> None:
    """Wherever the limit stands, it is kept or refused."""
    agents = tmp_path / "agents"
    agents.mkdir()
    texts = "description: {zh: 一, en: one}\nprompt: {zh: 一, en: one}\n"
    (agents / "thrifty.yaml").write_text(f'name: thrifty\n{texts}limits: {{cost: "0.50"}}\n', "utf-8")
    async with provider([Answer()]) as fake:
        with pytest.raises(ConfigInvalid, match="no price for m-1"):
            await asked(tmp_path, fake, agents_dir=str(agents))
        run = await asked(tmp_path, fake, agents_dir=str(agents), prices=priced(tmp_path / "p.json", m_1="1"))
    assert run["status"] == "succeeded"
