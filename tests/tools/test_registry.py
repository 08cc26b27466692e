"""The tool registry: what may be registered, what a call comes to, and what is nobody's business but ours."""

from __future__ import annotations

from typing import Any

import pytest

from devassist.core.errors import (
    ServiceFault,
    ToolArgumentsInvalid,
    ToolExists,
    ToolNotFound,
    ToolSchemaInvalid,
    Unavailable,
)
from devassist.core.scope import Scope
from devassist.core.tooling import (
    ToolFailure,
    ToolNeedsApproval,
    ToolOutcome,
    ToolResult,
    ToolRetry,
    ToolUnknown,
)
from devassist.ports.tools import CallContext, ToolBox
from devassist.tools.outcomes import AskForApproval, FailForGood, OutcomeUnknown, RetryWithMessage
from devassist.tools.registry import ToolRegistry
from tests.tools.probe import CONTEXT, NO_ARGS, ONE_TEXT, SCOPE, call, make


def echo(text: str) -> str:
    return text


def test_the_registry_is_a_tool_box_ordered_by_name() -> None:
    """A registry fits the port, and lists its tools by name however they came."""
    box: ToolBox = ToolRegistry([make(lambda: 1, "zeta"), make(lambda: 1, "alpha")])
    assert [spec.name for spec in box.specs()] == ["alpha", "zeta"]


def test_a_second_tool_of_a_name_is_refused_with_409() -> None:
    """Registering a name twice raises ToolExists and leaves the first tool in place."""
    registry = ToolRegistry([make(lambda: 1)])
    first = registry.get("probe")
    with pytest.raises(ToolExists) as caught:
        registry.register(make(lambda: 2))
    assert caught.value.status == 409
    assert registry.get("probe") is first


async def test_an_unknown_tool_is_404_and_the_known_ones_are_named() -> None:
    """ToolNotFound lists the names that exist, wherever the name is asked for."""
    registry = ToolRegistry([make(lambda: 1, "alpha"), make(lambda: 1, "beta")])
    for ask in (registry.get, registry.spec, lambda name: registry.to_openai_tools([name])):
        with pytest.raises(ToolNotFound, match="alpha, beta") as caught:
            ask("gamma")
        assert caught.value.status == 404
    with pytest.raises(ToolNotFound, match="Tools: none"):
        await ToolRegistry().call(SCOPE, "x", {}, CONTEXT)


@pytest.mark.parametrize("name", ["", "Upper", "1st", "_x", "a-b", "a" * 65, "工具", "a b", "a\n"])
def test_a_name_outside_the_pattern_is_refused(name: str) -> None:
    """Names are what providers accept: a letter, then letters, digits and _, at most 64."""
    with pytest.raises(ToolSchemaInvalid):
        ToolRegistry([make(lambda: 1, name)])


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"type": "array"}, "object"),
        ({}, "object"),
        (ONE_TEXT | {"properties": {"text": {"type": "text"}}}, "/properties/text/type"),
        (ONE_TEXT | {"properties": {"text": {"$ref": "https://example.org/s.json"}}}, "ref"),
        (ONE_TEXT | {"properties": {"text": {"$ref": "#/$defs/gone"}}}, "ref"),
        (NO_ARGS | {"properties": {"other": {}}}, "'other'"),
        ({"type": "object", "properties": {"text": {}}, "required": ["text"]}, "additionalProperties"),
        (NO_ARGS | {"properties": {"text": {}}}, "does not require"),
        (NO_ARGS | {"properties": {"scope": {}}}, "'scope'"),
    ],
)
def test_a_schema_that_could_not_be_called_safely_is_refused(parameters: dict[str, Any], says: str) -> None:
    """Invalid schemas, foreign references and arguments that the handler cannot take are found at registration."""
    with pytest.raises(ToolSchemaInvalid, match=says) as caught:
        ToolRegistry([make(echo, parameters=parameters)])
    assert caught.value.detail.startswith("probe: ")


def test_a_handler_with_keywords_takes_an_open_schema() -> None:
    """A handler that declares **arguments may have a schema that lets any key through."""
    ToolRegistry([make(lambda **given: given, parameters={"type": "object"})])


def test_the_openai_form_holds_name_description_and_parameters() -> None:
    """to_openai_tools gives what a chat completion request takes, for all tools or the named ones."""
    registry = ToolRegistry([make(echo, "b", parameters=ONE_TEXT), make(lambda: 1, "a")])
    function = {"name": "b", "description": "A probe.", "parameters": ONE_TEXT}
    assert registry.to_openai_tools(["b"]) == ({"type": "function", "function": function},)
    assert [tool["function"]["name"] for tool in registry.to_openai_tools()] == ["a", "b"]


async def test_wrong_arguments_never_reach_the_handler() -> None:
    """Arguments outside the schema raise ToolArgumentsInvalid (400) and the handler is not called."""
    seen: list[str] = []
    with pytest.raises(ToolArgumentsInvalid, match="missing text") as caught:
        await call(make(lambda text: seen.append(text), parameters=ONE_TEXT), {"txt": "x"})
    assert (caught.value.status, seen) == (400, [])


async def test_coerced_arguments_reach_the_handler_and_the_callers_stay_as_they_are() -> None:
    """The handler gets 4 for "4"; the caller's own dictionary is not changed."""
    given = {"n": "4"}
    schema = NO_ARGS | {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert await call(make(lambda n: [n], parameters=schema), given) == ToolResult([4])
    assert given == {"n": "4"}


async def test_context_and_scope_come_only_where_they_are_declared() -> None:
    """A handler that names context or scope gets the call's; one that does not, gets neither."""

    async def both(text: str, *, context: CallContext, scope: Scope) -> list[Any]:
        return [text, context.call_id, scope.actor]

    assert await call(make(both, parameters=ONE_TEXT), {"text": "x"}) == ToolResult(["x", "c" * 64, "local"])
    assert await call(make(echo, parameters=ONE_TEXT), {"text": "x"}) == ToolResult("x")


OUTCOMES = [
    (RetryWithMessage("again"), ToolRetry("again")),
    (FailForGood("gone", "it is gone", status=410), ToolFailure("gone", "it is gone", 410)),
    (AskForApproval("costly"), ToolNeedsApproval("costly")),
    (OutcomeUnknown("lost"), ToolUnknown("lost")),
]


@pytest.mark.parametrize(("signal", "outcome"), OUTCOMES)
@pytest.mark.parametrize("threaded", [True, False])
async def test_each_outcome_can_be_raised_or_returned(signal: Exception, outcome: ToolOutcome, threaded: bool) -> None:
    """The outcomes other than a result arrive unmixed, raised or returned, from a thread or from the loop."""

    def raises() -> None:
        raise signal

    async def raises_async() -> None:
        raise signal

    async def returns_async() -> ToolOutcome:
        return outcome

    for handler in (raises, lambda: outcome) if threaded else (raises_async, returns_async):
        assert await call(make(handler)) == outcome


@pytest.mark.parametrize(
    "error", [ValueError("password=hunter2"), KeyError("x"), SystemExit(3), TimeoutError("socket")]
)
@pytest.mark.parametrize("threaded", [True, False])
async def test_any_other_exception_is_our_fault_and_says_nothing_of_its_text(
    error: BaseException, threaded: bool
) -> None:
    """A handler's own exception is a ServiceFault naming its type only, SystemExit and a TimeoutError included."""

    def raises() -> None:
        raise error

    async def raises_async() -> None:
        raise error

    with pytest.raises(ServiceFault) as caught:
        await call(make(raises if threaded else raises_async))
    assert caught.value.code == "tool_fault"
    assert type(error).__name__ in caught.value.detail
    assert "hunter2" not in caught.value.detail
    assert caught.value.__cause__ is not None


async def test_a_service_fault_of_the_handler_passes_as_it_is() -> None:
    """An adapter that says Unavailable is heard: its code is not covered by tool_fault."""

    async def down() -> None:
        raise Unavailable("the sandbox is down", code="sandbox_unavailable")

    with pytest.raises(Unavailable) as caught:
        await call(make(down))
    assert caught.value.code == "sandbox_unavailable"


@pytest.mark.parametrize("value", [{"n": "1"}, {}, [1], None, {"n": 1, "m": 2}])
async def test_a_result_outside_its_schema_is_our_fault(value: Any) -> None:
    """What a tool returns is held to its declaration, and a mismatch is not shown to the model."""
    result = {
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False,
    }  # fmt: skip
    with pytest.raises(ServiceFault) as caught:
        await call(make(lambda: value, result=result))
    assert caught.value.code == "tool_result_invalid"
    assert await call(make(lambda: {"n": 1}, result=result)) == ToolResult({"n": 1})


@pytest.mark.parametrize("value", [object(), (1, 2), {1: 2}, float("nan"), "\ud800", b"x", {"a": [{1}]}])
async def test_a_result_that_is_no_json_is_our_fault(value: Any) -> None:
    """Without a declared schema a result must still be JSON, all the way down."""
    with pytest.raises(ServiceFault) as caught:
        await call(make(lambda: value))
    assert caught.value.code == "tool_result_invalid"


async def test_a_result_may_hold_nul_and_carry_its_own_text() -> None:
    """Program output may hold U+0000, and a ToolResult keeps the text made for the model."""
    assert await call(make(lambda: ToolResult({"out": "a\0b"}, "shown"))) == ToolResult({"out": "a\0b"}, "shown")
