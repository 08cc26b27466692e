"""From a declared agent to the definition of a run, and what a model call costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.agents import AgentSpec, LimitOverrides, Texts, permitted, resolve
from devassist.core.definition import Definition
from devassist.core.errors import ConfigInvalid, ToolForbidden, ToolNotAllowed, ToolNotFound
from devassist.core.event_parts import Limits
from devassist.core.prices import cost_micro, micro_units, parse_prices
from devassist.core.scope import Scope
from devassist.core.tooling import ToolSpec

TOOLS = [ToolSpec(name, f"does {name}", {"type": "object"}) for name in ("execute_code", "get_policy", "search_docs")]
SPEC = AgentSpec("policy", Texts("政策", "policy"), Texts("你是助手。", "You help."), ("get_policy", "search_docs"))


def define(spec: AgentSpec = SPEC, **given: Any) -> Definition:
    asked: dict[str, Any] = {
        "lang": "zh", "tools": TOOLS, "restrict": None, "model": "m", "model_kind": "scripted", "protocol": "text",
        "limits_default": Limits(), "protocol_text": "PROTOCOL",
    }  # fmt: skip
    return resolve(spec, **{**asked, **given})


def names(definition: Definition) -> list[str]:
    return [tool.name for tool in definition.tools]


def test_an_agent_has_the_tools_that_it_declares() -> None:
    """A list gives those, in the order of the registry; '*' gives all; none gives none."""
    assert names(define()) == ["get_policy", "search_docs"]
    assert names(define(replace(SPEC, tools=("search_docs", "get_policy")))) == ["get_policy", "search_docs"]
    assert names(define(replace(SPEC, tools="*"))) == ["execute_code", "get_policy", "search_docs"]
    assert names(define(replace(SPEC, tools=()))) == []


def test_a_restriction_only_takes_away() -> None:
    """Named tools stay, an empty restriction leaves none, None leaves all."""
    assert names(define(restrict=("search_docs",))) == ["search_docs"]
    assert names(define(restrict=("search_docs", "search_docs"))) == ["search_docs"]
    assert names(define(restrict=())) == []


def test_a_restriction_to_a_wrong_tool_is_refused() -> None:
    """400 for a tool that the agent does not have, 404 for one that does not exist, each naming what there is."""
    with pytest.raises(ToolNotAllowed, match="get_policy, search_docs") as forbidden:
        define(restrict=("execute_code",))
    with pytest.raises(ToolNotFound, match="execute_code, get_policy, search_docs") as unknown:
        define(restrict=("get_polcy",))
    assert (forbidden.value.status, unknown.value.status) == (400, 404)
    with pytest.raises(ToolNotAllowed):
        define(tools=TOOLS[1:], restrict=("execute_code",), all_names=["execute_code"])


def test_an_agent_may_ask_for_more_approval_never_for_less() -> None:
    """Named tools, or all, get the mark in the definition; one that asks itself keeps it."""

    def marked(**changes: Any) -> list[str]:
        tools = [replace(t, needs_approval=t.name == "execute_code") for t in TOOLS]
        definition = define(replace(SPEC, tools="*", **changes), tools=tools)
        return [tool.name for tool in definition.tools if tool.needs_approval]

    assert marked() == ["execute_code"]
    assert marked(approval=("get_policy",)) == ["execute_code", "get_policy"]
    assert marked(approval="*") == ["execute_code", "get_policy", "search_docs"]
    with pytest.raises(ConfigInvalid, match="'get_polcy'"):
        define(replace(SPEC, approval=("get_polcy",)))


def test_forbidden_tools_are_left_out_and_named_they_are_refused() -> None:
    """Whoever lacks the right gets a run without the tool; what the agent lacks anyway is said first."""
    assert names(define(forbidden=("get_policy", "execute_code"))) == ["search_docs"]
    assert names(define(restrict=("search_docs",), forbidden=("get_policy",))) == ["search_docs"]
    with pytest.raises(ToolForbidden, match="'get_policy'") as refused:
        define(restrict=("search_docs", "get_policy"), forbidden=("get_policy",))
    assert (refused.value.status, refused.value.code) == (403, "tool_forbidden")
    with pytest.raises(ToolNotAllowed):
        define(restrict=("execute_code",), forbidden=("execute_code",))


@pytest.mark.parametrize(
    ("permission", "rights", "may"),
    [
        (None, {"user"}, True), ("user", {"user"}, True), ("admin", {"user"}, False), ("refunds", {"user"}, False),
        ("admin", {"user", "admin"}, True), ("refunds", {"user", "admin"}, True),
    ],
)  # fmt: skip
def test_a_tool_is_for_whoever_has_its_right(permission: str | None, rights: set[Any], may: bool) -> None:
    """Administrators have every right, also one that no role has yet."""
    assert permitted(replace(TOOLS[0], permission=permission), Scope("t", "a", frozenset(rights))) is may


def test_a_declared_tool_must_exist() -> None:
    """An agent whose tool nobody registered is misconfigured; one that the caller may not use is merely left out."""
    with pytest.raises(ConfigInvalid, match="search_docs"):
        define(tools=TOOLS[:2])
    assert names(define(tools=TOOLS[:2], all_names=["search_docs"])) == ["get_policy"]


def test_the_system_message_is_prompt_and_protocol() -> None:
    """In the message's language; native calls need a shorter text, and an agent without tools none at all."""
    assert define().system == "你是助手。\n\nPROTOCOL"
    assert define(lang="en").system == "You help.\n\nPROTOCOL"
    native = define(protocol="tools", lang="en").system
    assert native.startswith("You help.\n\nCall the tools")
    assert "PROTOCOL" not in native
    assert define(replace(SPEC, tools=()), protocol="tools").system == "你是助手。"


def test_the_prompt_version_follows_the_text() -> None:
    """Equal system messages have one version, any other text another; it begins with where the text came from."""
    first = define().prompt_version
    assert first == define().prompt_version
    assert first.startswith("packaged:")
    assert len(first) == len("packaged:") + 12
    assert define(replace(SPEC, origin="file")).prompt_version == first.replace("packaged", "file")
    assert define(protocol_text="OTHER").prompt_version != first
    assert define(replace(SPEC, prompt=Texts("别的", "other"))).prompt_version != first


def test_a_grounded_agent_is_gated_unless_it_says_otherwise() -> None:
    """Nothing unverified is shown where citations are required, but an agent may choose to flag only."""
    assert define().release == "live"
    assert define(replace(SPEC, grounded=True)).release == "gated"
    assert define(replace(SPEC, grounded=True, release="live")).release == "live"
    assert define(replace(SPEC, release="gated")).release == "gated"


def test_an_agent_s_own_limits_come_before_the_settings() -> None:
    """What it does not state stays as it is set."""
    spec = replace(SPEC, limits=LimitOverrides(steps=3, corrections=0))
    assert define(spec, limits_default=Limits(tokens=5)).limits == Limits(steps=3, corrections=0, tokens=5)


def test_a_definition_is_stored_and_read_back() -> None:
    """The whole of it survives the payload of INIT."""
    definition = define(replace(SPEC, grounded=True, on_unknown="tell", parallel=True, max_reply_tokens=9))
    assert Definition.from_json(definition.to_json()) == definition
    assert (definition.on_unknown, definition.parallel, definition.max_reply_tokens) == ("tell", True, 9)


PRICES = {"gpt-x": (150_000, 600_000), "gpt-x-*": (1_000_000, 2_000_000), "gpt*": (5, 5)}


def test_cost_is_the_price_of_the_best_fitting_name() -> None:
    """The exact name first, then the longest beginning; a model without a price has no cost rather than none to pay."""
    assert cost_micro(PRICES, "gpt-x", 1_000_000, 0) == 150_000
    assert cost_micro(PRICES, "gpt-x-mini", 0, 500_000) == 1_000_000
    assert cost_micro(PRICES, "gpt-y", 1_000_000, 0) == 5
    assert cost_micro(PRICES, "claude", 1, 1) is None
    assert cost_micro({}, "gpt-x", 1, 1) is None


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_cost_is_never_rounded_down(given_tokens: int, made_tokens: int) -> None:
    """A limit on cost errs by less than a micro-unit a call, and to the safe side."""
    exact = (given_tokens * 150_000 + made_tokens * 600_000) / 1_000_000
    cost = cost_micro(PRICES, "gpt-x", given_tokens, made_tokens)
    assert cost is not None
    assert exact <= cost < exact + 1


def test_decimals_become_micro_units_exactly() -> None:
    """No float comes near money."""
    assert [micro_units(text) for text in ("0", "0.15", "10", "0.000001")] == [0, 150_000, 10_000_000, 1]


@pytest.mark.parametrize("text", ["", "-1", "1e3", ".5", "0.0000001", "1,5", "NaN", "１"])
def test_what_is_no_decimal_is_refused(text: str) -> None:
    """The message says what is allowed."""
    with pytest.raises(ValueError, match="decimal"):
        micro_units(text)


def test_a_price_list_is_read() -> None:
    """Decimal strings a million tokens."""
    data = {"currency": "EUR", "models": {"m": {"input": "0.1", "output": "2"}}, "comment": "ours"}
    prices = parse_prices(data, "p.json")
    assert (prices.currency, dict(prices.models)) == ("EUR", {"m": (100_000, 2_000_000)})


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ([], "object"),
        ({"models": {}}, "currency"),
        ({"currency": "usd", "models": {}}, "currency"),
        ({"currency": "USD", "models": {}, "model": {}}, "unknown model"),
        ({"currency": "USD", "models": {"m": {"input": 0.1, "output": "1"}}}, "models/m/input"),
        ({"currency": "USD", "models": {"m": {"input": "1"}}}, "models/m: output"),
        ({"currency": "USD", "models": {"m": "1"}}, "models/m"),
    ],
)
def test_a_wrong_price_list_names_its_place(data: object, named: str) -> None:
    """File and field stand in the message."""
    with pytest.raises(ConfigInvalid, match=f"p.json.*{named}"):
        parse_prices(data, "p.json")
