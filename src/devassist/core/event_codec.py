"""Events to canonical bodies and back.

``decode`` reads any version ever written: ``UPCASTERS`` lift old bodies on read, after verification, and are never
removed, so old events load for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from json.encoder import encode_basestring as quoted
from operator import attrgetter
from typing import Any, cast

from devassist.core.codec import MAX_INT, NotCanonical, canonical
from devassist.core.errors import JournalCorrupt, UnknownEventKind
from devassist.core.event_parts import DecidedCall, Limits, Past
from devassist.core.events import CLASSES, KINDS, Event, ModelIntended, ModelReplied, RunStarted


def _as_it_is(body: dict[str, Any]) -> dict[str, Any]:
    """The next version only has a field more, which defaults to none."""
    return body


UPCASTERS: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {
    ("tool_returned", 1): _as_it_is,
    ("run_finished", 1): _as_it_is,
    ("late_outcome", 1): _as_it_is,
}
"""(kind, version) -> pure function lifting a decoded body to the next version."""

_REQUIRED: dict[str, frozenset[str]] = {
    cls.kind: frozenset(f.name for f in fields(cls) if f.default is MISSING) for cls in CLASSES
}
_DEFAULTS: dict[str, dict[str, Any]] = {cls.kind: {f.name: f.default for f in fields(cls)} for cls in CLASSES}
_NAMES: dict[str, list[str]] = {kind: sorted(("k", "v", *defaults)) for kind, defaults in _DEFAULTS.items()}
_BEFORE: dict[str, list[str]] = {kind: [f'"{name}":' for name in names] for kind, names in _NAMES.items()}
_LEFT_OUT: dict[str, list[Any]] = {
    kind: [_DEFAULTS[kind].get(name, MISSING) for name in names] for kind, names in _NAMES.items()
}
_VALUES: dict[str, Callable[[Event], tuple[Any, ...]]] = {
    kind: attrgetter(*({"k": "kind", "v": "version"}.get(name, name) for name in names))
    for kind, names in _NAMES.items()
}
"""The members of a body in canonical order: their names, what stands before each value, the value that is left out,
and how to get all values of an event."""
_NESTED: dict[tuple[str, str], type[Any]] = {
    ("model_intended", "history"): Past,
    ("model_replied", "calls"): DecidedCall,
}

REF_FIELDS = (
    "definition", "request", "message", "reply", "native", "reasoning", "thought", "answer", "correction", "args",
    "result", "shown", "output", "note", "retrieval", "checks",
)  # fmt: skip
_REFS: dict[str, tuple[str, ...]] = {
    cls.kind: tuple(f.name for f in fields(cls) if f.name in REF_FIELDS) for cls in CLASSES
}


def refs(event: Event) -> list[str]:
    """Every payload that ``event`` names."""
    found: list[str] = [ref for name in _REFS[event.kind] if (ref := getattr(event, name)) is not None]
    if isinstance(event, ModelReplied):
        found += [call.args for call in event.calls]
    elif isinstance(event, ModelIntended):
        found += [past.ref for past in event.history]
    return found


def encode(event: Event) -> bytes:
    """The canonical body of ``event``; fields at their default are left out. Raises NotCanonical.

    Written member by member: this happens for every event, and costs half of what ``canonical`` does.
    """
    kind = event.kind
    members = [
        before + (quoted(value) if type(value) is str else _json(value))
        for before, left_out, value in zip(_BEFORE[kind], _LEFT_OUT[kind], _VALUES[kind](event), strict=True)
        if value is not left_out and value != left_out
    ]
    try:
        return f"{{{','.join(members)}}}".encode()
    except UnicodeEncodeError as error:
        raise NotCanonical(f"a string holds a lone surrogate at character {error.start}") from None


def _json(value: Any) -> str:
    """What ``canonical`` writes for a member's value, without its checks where the type says enough."""
    if type(value) is str:
        return quoted(value)
    if type(value) is int and -MAX_INT <= value <= MAX_INT:
        return str(value)
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return f"[{','.join([_json(item) for item in cast('tuple[Any, ...]', value)])}]"
    return canonical(value).decode()


def _tuples(items: list[Any], nested: type[Any] | None) -> tuple[Any, ...]:
    """Lists as the value types that the events hold."""
    return tuple(nested(*v) if nested else tuple(cast("list[Any]", v)) if isinstance(v, list) else v for v in items)


def decode(body: dict[str, Any]) -> Event:
    """The event that a parsed body holds. Raises UnknownEventKind, or JournalCorrupt naming the field."""
    if not isinstance(body, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - a stored body may be anything
        raise JournalCorrupt(f"a body is an object, not {type(body).__name__}")
    data = dict(body)
    kind, version = data.pop("k", None), data.pop("v", None)
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None or not isinstance(version, int):
        raise UnknownEventKind(f"no such event kind: {kind!r}")
    while version < cls.version and (lift := UPCASTERS.get((cls.kind, version))) is not None:
        data, version = lift(data), version + 1
    if version != cls.version:
        raise UnknownEventKind(f"{kind} version {version} is not known; this build reads up to {cls.version}")
    try:
        for name, value in data.items():
            if isinstance(value, list):
                data[name] = _tuples(cast("list[Any]", value), _NESTED.get((cls.kind, name)))
        if cls is RunStarted and "limits" in data:
            data["limits"] = Limits(*data["limits"])
        return cls(**data)
    except TypeError as error:
        missing, unknown = _REQUIRED[cls.kind] - data.keys(), data.keys() - _DEFAULTS[cls.kind].keys()
        wrong = f"missing {sorted(missing)}, unknown {sorted(unknown)}" if missing or unknown else str(error)
        raise JournalCorrupt(f"{kind}: {wrong}") from None
