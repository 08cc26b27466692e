"""The checker of arguments, and ``tool``: a typed Python function becomes a tool with a schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Annotated, Any, cast, get_type_hints

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from devassist.core.errors import ToolSchemaInvalid
from devassist.core.tooling import (
    Effect,
    ToolFailure,
    ToolNeedsApproval,
    ToolResult,
    ToolRetry,
    ToolSpec,
    ToolUnknown,
)
from devassist.tools.compiled import CompiledSchema, json_faults
from devassist.tools.outcomes import RetryWithMessage
from devassist.tools.registry import Tool

_OUTCOMES = (ToolResult, ToolRetry, ToolFailure, ToolNeedsApproval, ToolUnknown)
_OURS = ("context", "scope")


class SchemaChecker:
    """Checks arguments against the schema that a run was started with (adapter of ``ports.tools.ArgumentChecker``).

    Compiled schemas are kept by their canonical JSON, so the definition that each run reads anew from its INIT costs
    nothing after the first. Pure: the same spec and arguments give the same answer in any process.
    """

    def __init__(self, *, keep: int = 256) -> None:
        self._compile = lru_cache(maxsize=keep)(_compiled)

    def check(self, spec: ToolSpec, args: dict[str, Any]) -> dict[str, Any]:
        """See the port. Raises ToolArgumentsInvalid, and ToolSchemaInvalid when the spec itself is wrong."""
        return self._compile(_key(spec.parameters)).check(spec.name, args)

    def result_faults(self, spec: ToolSpec, value: Any) -> list[tuple[str, str]]:
        """See the port. Raises ToolSchemaInvalid when the spec itself is wrong."""
        return json_faults(value) if spec.result is None else self._compile(_key(spec.result)).faults(value)


def _key(schema: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise ToolSchemaInvalid(f"The schema is no JSON: {error}") from None


def _compiled(key: bytes) -> CompiledSchema:
    return CompiledSchema(orjson.loads(key))


class _PlainSchema(GenerateJsonSchema):
    """Without the titles that pydantic makes of names: a model reads them as noise."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def tool(
    *,
    effect: Effect = "once",
    timeout_s: float = 30.0,
    name: str | None = None,
    permission: str | None = None,
    needs_approval: bool = False,
) -> Callable[[Callable[..., Any]], Tool]:
    """Declare a typed function, sync or async, as a tool.

    The schema of its arguments comes from its annotations (``Annotated[int, Field(ge=1, description="…")]`` says
    more), that of its result from the return annotation unless that is missing, Any, None or an outcome; the
    description is its docstring. Arguments reach the function as the annotated types. Raises ToolSchemaInvalid for a
    function without a docstring, with an unannotated parameter or with ``*args``.
    """

    def declare(function: Callable[..., Any]) -> Tool:
        called = name or getattr(function, "__name__", "")
        description = inspect.getdoc(function)
        if not description:
            raise ToolSchemaInvalid(f"{called}: a tool needs a docstring; it is all that a model knows of it")
        try:
            hints = get_type_hints(function, include_extras=True)
            model = _arguments(function, called, hints)
            returned = _result_adapter(hints.get("return", Any))
            parameters = _schema_of(TypeAdapter(model), "validation")
            result = None if returned is None else _schema_of(returned, "serialization")
        except (PydanticUserError, NameError) as error:
            raise ToolSchemaInvalid(f"{called}: {str(error).splitlines()[0]}") from error
        spec = ToolSpec(called, description, parameters, result, effect, timeout_s, permission, needs_approval)
        return Tool(spec, _handler(function, model, returned))

    return declare


def _arguments(function: Callable[..., Any], called: str, hints: dict[str, Any]) -> type[BaseModel]:
    """A model of the parameters. Its fields have names of their own: ``json`` or ``copy`` would shadow pydantic's."""
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in _OURS:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolSchemaInvalid(f"{called}: parameter {parameter.name!r} cannot be given by name")
        if parameter.name not in hints:
            raise ToolSchemaInvalid(f"{called}: parameter {parameter.name!r} has no type")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[f"p{len(fields)}"] = (Annotated[hints[parameter.name], Field(alias=parameter.name)], default)
    return create_model(called, __config__=ConfigDict(extra="forbid"), **fields)


def _result_adapter(returned: Any) -> TypeAdapter[Any] | None:
    parts = getattr(returned, "__args__", ()) or (returned,)
    if returned in (Any, type(None)) or any(part in _OUTCOMES for part in parts):
        return None
    return TypeAdapter(returned)


def _schema_of(adapter: TypeAdapter[Any], mode: JsonSchemaMode) -> dict[str, Any]:
    schema = adapter.json_schema(schema_generator=_PlainSchema, mode=mode)
    schema.pop("title", None)
    return schema


def _handler(
    function: Callable[..., Any], model: type[BaseModel], returned: TypeAdapter[Any] | None
) -> Callable[..., Any]:
    names = {field: str(info.alias) for field, info in model.model_fields.items()}

    def prepared(args: dict[str, Any]) -> dict[str, Any]:
        ours = {key: args.pop(key) for key in _OURS if key in args}
        try:
            typed = model.model_validate(args)
        except ValidationError as error:
            raise RetryWithMessage(_said(error)) from None
        given = typed.model_fields_set
        return {name: getattr(typed, field) for field, name in names.items() if field in given} | ours

    def plain(value: Any) -> Any:
        if returned is None or isinstance(value, _OUTCOMES):
            return value
        return returned.dump_python(value, mode="json", by_alias=True, warnings=False)

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call_async(**args: Any) -> Any:
            return plain(await function(**prepared(args)))

        return call_async

    @wraps(function)
    def call_sync(**args: Any) -> Any:
        return plain(function(**prepared(args)))

    return call_sync


def _said(error: ValidationError) -> str:
    """What pydantic refused beyond the JSON Schema (a custom validator, say), without the values."""
    faults = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join("".join(f"/{step}" for step in f["loc"]) + f": {f['msg']}" for f in cast("list[Any]", faults))
