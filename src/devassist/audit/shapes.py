"""What the fields of an event must look like, and which of them name payloads: both read off the event classes.

``event_codec.decode`` fills a class with whatever a body holds; evidence needs to know that it also fits the class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from devassist.core.events import CLASSES, Event, ModelIntended, ModelReplied, Ref

_REFS: dict[str, tuple[str, ...]] = {
    cls.kind: tuple(f.name for f in fields(cls) if f.type in ("Ref", "Ref | None")) for cls in CLASSES
}
PUBLIC_FIELDS = frozenset({"definition"})
"""The fields whose payloads are nobody's; every other one is the run's own."""


@cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls)}


@cache
def _parts(cls: type[Any]) -> tuple[Any, ...]:
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
    if isinstance(hint, type) and issubclass(hint, tuple):
        return type(value) is hint and _fit_all(cast("tuple[Any, ...]", value), _parts(hint))
    return value is None if hint is NoneType else type(value) is hint


def _fit_all(values: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if hints[-1:] == (...,):
        return all(_fits(value, hints[0]) for value in values)
    return len(values) == len(hints) and all(map(_fits, values, hints))


def refs_of(event: Event) -> Iterator[tuple[str, Ref]]:
    """(field, reference) of every payload that ``event`` names; the event must fit its class."""
    for name in _REFS[event.kind]:
        ref = getattr(event, name)
        if ref is not None:
            yield name, ref
    if isinstance(event, ModelIntended):
        yield from (("history", past.ref) for past in event.history)
    elif isinstance(event, ModelReplied):
        yield from (("calls", call.args) for call in event.calls)


def texts_named(events: Iterator[Event]) -> dict[Ref, str]:
    """Every reference that ``events`` name, once, with the field that names it first."""
    found: dict[Ref, str] = {}
    for event in events:
        for name, ref in refs_of(event):
            found.setdefault(ref, name)
    return found


