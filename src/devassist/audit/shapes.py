"""What the fields of an event must look like, read off the event classes.

``event_codec.decode`` fills a class with whatever a body holds; evidence needs to know that it also fits the class.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from devassist.core.events import Event


@cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls)}


@cache
def _parts(cls: Any) -> tuple[Any, ...]:
    return tuple(get_type_hints(cls).values())


def misfit(event: Event) -> str | None:
    """The first field of ``event`` that does not fit its type, as a sentence; None when all do. Total."""
    for name, hint in _hints(type(event)).items():
        value = getattr(event, name)
        if not _fits(value, hint):
            return f"{event.kind}.{name} cannot be {repr(value)[:80]}"
    return None


def _fits(value: Any, hint: Any) -> bool:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return type(value) is str and value in args
    if origin is UnionType or origin is Union:
        return any(_fits(value, one) for one in args)
    if origin is tuple:
        return type(value) is tuple and _fit_all(cast("tuple[Any, ...]", value), args)
    if hasattr(hint, "_fields"):
        return type(value) is hint and _fit_all(cast("tuple[Any, ...]", value), _parts(hint))
    return value is None if hint is NoneType else type(value) is hint


def _fit_all(values: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if hints[-1:] == (...,):
        return all(_fits(value, hints[0]) for value in values)
    return len(values) == len(hints) and all(map(_fits, values, hints))
