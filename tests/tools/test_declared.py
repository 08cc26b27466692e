"""Tools from typed functions: the decorator ``tool``."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field

from devassist.core.errors import ToolArgumentsInvalid, ToolSchemaInvalid
from devassist.core.scope import Scope
from devassist.core.tooling import ToolOutcome, ToolResult, ToolRetry
from devassist.ports.tools import CallContext
from devassist.tools.compiled import CompiledSchema
from devassist.tools.registry import Tool, ToolRegistry
from devassist.tools.schema import tool


class Place(BaseModel):
    city: str
    zip_code: str | None = None


@tool(effect="pure", timeout_s=10)
async def plan(
    place: Place,
    day: date,
    mode: Literal["fast", "slow"] = "fast",
    copy: Annotated[int, Field(ge=1, le=9, description="how many")] = 1,
    *,
    scope: Scope,
    context: CallContext,
) -> dict[str, Any]:
    """Plan a visit."""
    return {"city": place.city, "day": day.isoformat(), "mode": mode, "copy": copy, "by": scope.actor}


async def call(declared: Tool, args: dict[str, Any]) -> ToolOutcome:
    context = CallContext("t", "c", 1, 1)
    return await ToolRegistry([declared]).call(Scope("default", "local"), declared.spec.name, args, context)


def test_the_decorator_takes_schema_and_description_from_the_function() -> None:
    """Names, types, defaults and Field words become a closed schema without pydantic's titles; scope stays out."""
    spec = plan.spec
    assert (spec.name, spec.description, spec.effect, spec.timeout_s) == ("plan", "Plan a visit.", "pure", 10)
    properties = spec.parameters["properties"]
    assert list(properties) == ["place", "day", "mode", "copy"]
    assert properties["copy"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "description": "how many",
        "default": 1,
    }
    assert spec.parameters["required"] == ["place", "day"]
    assert spec.parameters["additionalProperties"] is False
    CompiledSchema(spec.parameters)


async def test_a_decorated_function_gets_its_own_types() -> None:
    """The function sees a model and a date, not their JSON, and its defaults are its own."""
    result = await call(plan, {"place": {"city": "云泽"}, "day": "2026-01-31", "copy": "3"})
    assert result == ToolResult({"city": "云泽", "day": "2026-01-31", "mode": "fast", "copy": 3, "by": "local"})
    with pytest.raises(ToolArgumentsInvalid, match="/place: missing city"):
        await call(plan, {"place": {}, "day": "2026-01-31"})


async def test_a_decorated_function_may_be_sync_and_return_a_model() -> None:
    """A sync function works too, and a returned model is dumped as the declared result."""

    @tool(effect="pure", name="where_is")
    def locate(city: str) -> Place:
        """Locate."""
        return Place(city=city)

    assert locate.spec.result is not None
    assert await call(locate, {"city": "A"}) == ToolResult({"city": "A", "zip_code": None})


def even(n: int) -> int:
    if n % 2:
        raise ValueError("must be even")
    return n


async def test_what_only_pydantic_refuses_goes_back_to_the_model() -> None:
    """A rule that JSON Schema cannot say ends as ToolRetry, with the place and without the value."""

    @tool(effect="pure")
    def halve(n: Annotated[int, AfterValidator(even)]) -> ToolResult | ToolRetry:
        """Halve."""
        return ToolResult(n // 2)

    assert halve.spec.result is None
    assert await call(halve, {"n": 4}) == ToolResult(2)
    outcome = await call(halve, {"n": 1234567})
    assert isinstance(outcome, ToolRetry)
    assert "/n: " in outcome.message
    assert "even" in outcome.message
    assert "1234567" not in outcome.message


def undocumented(n: int) -> int:
    return n


def untyped(n) -> int:  # type: ignore[no-untyped-def]
    """Untyped."""
    return n


def variadic(*n: int) -> int:
    """Variadic."""
    return sum(n)


def unknown_type(n: Missing) -> int:  # type: ignore[name-defined]  # noqa: F821
    """Unknown."""
    return n


def opaque(n: CompiledSchema) -> int:
    """Opaque."""
    return 1


@pytest.mark.parametrize("function", [undocumented, untyped, variadic, unknown_type, opaque])
def test_a_function_that_says_too_little_is_no_tool(function: Any) -> None:
    """No docstring, no type, *args or a type without a schema raise ToolSchemaInvalid naming the tool."""
    with pytest.raises(ToolSchemaInvalid, match=function.__name__):
        tool(effect="pure")(function)
