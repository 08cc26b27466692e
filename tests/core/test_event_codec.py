"""Events and their bodies: every kind round-trips, and old bodies load for ever."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core import event_codec
from devassist.core.codec import MAX_INT, canonical, parse_canonical
from devassist.core.errors import JournalCorrupt, UnknownEventKind
from devassist.core.event_codec import REF_FIELDS, decode, encode, refs
from devassist.core.event_parts import DecidedCall, Limits, Past
from devassist.core.events import CLASSES, KINDS, TERMINAL, ModelReplied, RunStarted
from devassist.core.signals import SIGNALS, Fact

words = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=8)
OURS = {int: st.integers(-1, MAX_INT), bool: st.booleans(), str: words, types.NoneType: st.none()}


def strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(strategy, args))
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(strategy(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(strategy, args))
    if isinstance(hint, type) and issubclass(hint, tuple):
        return st.tuples(*map(strategy, get_type_hints(hint).values())).map(lambda row: hint(*row))
    return OURS[hint]


def instances(cls: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    return st.builds(cls, **{f.name: strategy(hints[f.name]) for f in fields(cls)})


events = st.one_of(*map(instances, CLASSES))


@given(events)
def test_every_event_comes_back_from_its_body(event: Any) -> None:
    """Equal, of the same classes within, and its body is canonical."""
    again = decode(parse_canonical(encode(event)))
    assert again == event
    assert repr(again) == repr(event)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.kind)
def test_fields_at_their_default_are_left_out(cls: type[Any]) -> None:
    """A body holds kind, version and what is not the default."""
    required = {f.name: "x" if f.type == "str" else 7 for f in fields(cls) if f.default is MISSING}
    if cls is RunStarted:
        required["limits"] = Limits()
    body = parse_canonical(encode(cls(**required)))
    assert set(body) == {"k", "v", *required}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.kind)
def test_bodies_hold_no_free_text(cls: type[Any]) -> None:
    """Every field is an id, an enum, a number, a flag or a reference; what a person or model wrote is a payload."""
    ids = {
        "signal_id", "actor", "tenant", "domain", "agent", "conversation", "root", "parent_call", "replaces", "idem",
        "digest", "model", "model_kind", "tool", "code", "child", "protocol", "reason", "state", "finish", "flags",
        "new_digest", "verdicts", "degraded", "name", "data", "breaker", "doubts",
    }  # fmt: skip
    for name, hint in get_type_hints(cls).items():
        if "str" in str(hint) and name not in ("kind", *REF_FIELDS):
            assert name in ids, name


@given(events)
def test_every_reference_is_named_once_asked(event: Any) -> None:
    """``refs`` finds what stands in reference fields, in calls and in history, and nothing else."""
    found = [v for f in fields(event) if f.name in REF_FIELDS and (v := getattr(event, f.name)) is not None]
    found += [call.args for call in getattr(event, "calls", ())]
    found += [past.ref for past in getattr(event, "history", ())]
    assert refs(event) == found


def test_kinds_are_distinct_and_grouped() -> None:
    """One class a kind; signals carry their id and terminal events end a run."""
    assert len(KINDS) == len(CLASSES)
    assert {k for k, cls in KINDS.items() if "signal_id" in {f.name for f in fields(cls)}} == SIGNALS
    assert {"run_finished", "run_failed", "run_aborted"} == TERMINAL


@pytest.mark.parametrize(
    "body",
    [
        {}, {"v": 1}, {"k": "made_up", "v": 1}, {"k": ["timer_fired"], "v": 1}, {"k": "timer_fired"},
        {"k": "timer_fired", "v": "1", "signal_id": "s", "until": 1},
        {"k": "timer_fired", "v": 2, "signal_id": "s", "until": 1},
        {"k": "timer_fired", "v": 0, "signal_id": "s", "until": 1},
    ],
)  # fmt: skip
def test_unknown_kinds_and_versions_are_refused(body: dict[str, Any]) -> None:
    """A later version too: this build cannot know what it means."""
    with pytest.raises(UnknownEventKind):
        decode(body)


def test_fields_are_known_and_complete() -> None:
    """A missing field and an unknown one are named."""
    with pytest.raises(JournalCorrupt, match=r"missing \['until'\], unknown \['soon'\]"):
        decode({"k": "timer_fired", "v": 1, "signal_id": "s", "soon": 1})
    with pytest.raises(JournalCorrupt, match="run_started: missing"):
        decode({"k": "run_started", "v": 1, "limits": [8]})


@pytest.mark.parametrize(
    "body",
    [
        [], "x", None, 7,
        {"k": "model_replied", "v": 1, "of": 1, "reply": "r", "decision": "calls", "took": 1, "calls": [["a"]]},
        {"k": "model_intended", "v": 1, "history": [["user", "r", "more"]]},
        {"k": "run_started", "v": 1, "limits": [1, 2, 3, 4, 5, 6]},
    ],
)  # fmt: skip
def test_a_body_of_another_shape_is_corrupt(body: Any) -> None:
    """Never an error of Python's own."""
    with pytest.raises(JournalCorrupt):
        decode(body)


@pytest.fixture
def third_version(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], Any]:
    """``timer_fired`` as if it were at version 3, with a lift from each older one."""

    @dataclass(frozen=True, slots=True)
    class Timer:
        kind: ClassVar[str] = "timer_fired"
        version: ClassVar[int] = 3
        signal_id: str
        until_us: int
        late: bool = False

    def first(data: dict[str, Any]) -> dict[str, Any]:
        return {"signal_id": data["signal_id"], "until_ms": data["until"] // 1000}

    def second(data: dict[str, Any]) -> dict[str, Any]:
        return {"signal_id": data["signal_id"], "until_us": data["until_ms"] * 1000, "late": True}

    names = {f.name: f.default for f in fields(Timer)}
    monkeypatch.setitem(KINDS, "timer_fired", Timer)
    monkeypatch.setitem(event_codec.UPCASTERS, ("timer_fired", 1), first)
    monkeypatch.setitem(event_codec.UPCASTERS, ("timer_fired", 2), second)
    monkeypatch.setitem(event_codec._DEFAULTS, "timer_fired", tuple(names.items()))
    return lambda body: decode(body)


def test_old_versions_are_lifted_on_read(third_version: Any) -> None:
    """Each lift takes a body one version on; the body that is stored stays as it is."""
    stored = canonical({"k": "timer_fired", "v": 1, "signal_id": "s", "until": 5_000})
    body = parse_canonical(stored)
    lifted: Any = third_version(body)
    assert (lifted.signal_id, lifted.until_us, lifted.late) == ("s", 5_000, True)
    assert parse_canonical(stored) == body
    assert third_version({"k": "timer_fired", "v": 2, "signal_id": "s", "until_ms": 7}).until_us == 7_000
    assert not third_version({"k": "timer_fired", "v": 3, "signal_id": "s", "until_us": 7}).late


def test_a_version_without_a_lift_is_refused(third_version: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap in the lifts is a build that cannot read what was written."""
    monkeypatch.delitem(event_codec.UPCASTERS, ("timer_fired", 2))
    with pytest.raises(UnknownEventKind, match="version 2"):
        third_version({"k": "timer_fired", "v": 1, "signal_id": "s", "until": 1})


def test_nested_values_are_their_classes() -> None:
    """Limits, calls and history come back as value types, plain pairs as tuples."""
    body = {"k": "model_replied", "v": 1, "of": 1, "reply": "r", "decision": "calls", "took": 1}
    reply = decode(body | {"calls": [["t", "pure", "a", None], ["u", "once", "b", "id"]]})
    assert isinstance(reply, ModelReplied)
    assert [(call.tool, call.native_id) for call in reply.calls] == [("t", None), ("u", "id")]
    fact = {"k": "fact", "v": 1, "name": "n", "actor": "a", "data": [["k", "v"]]}
    assert decode(fact) == Fact("n", "a", (("k", "v"),))


def test_value_types_keep_their_order() -> None:
    """They stand as lists in bodies: a field may be added at the end, never moved."""
    assert Limits._fields == ("steps", "corrections", "tokens", "deadline_ms", "cost")
    assert DecidedCall._fields == ("tool", "effect", "args", "native_id")
    assert Past._fields == ("role", "ref")


@pytest.mark.parametrize("kind", ["tool_returned", "run_finished", "late_outcome"])
def test_bodies_of_the_first_version_load_without_the_field_that_came_later(kind: str) -> None:
    """What was written before retrievals and checks were kept names none, and a new body says its version."""
    old: dict[str, dict[str, Any]] = {
        "tool_returned": {"of": 3, "outcome": "result", "took": 5, "result": "R"},
        "run_finished": {"of": 3, "answer": "A", "verdicts": ["quote_verified"]},
        "late_outcome": {"signal_id": "s", "of": 3, "outcome": "result"},
    }
    event = decode({"k": kind, "v": 1, **old[kind]})
    assert getattr(event, "retrieval", None) is None
    assert getattr(event, "checks", None) is None
    assert parse_canonical(encode(event))["v"] == 2
    later = replace(event, **{"checks" if kind == "run_finished" else "retrieval": "NEW"})
    assert "NEW" in refs(later)
    assert decode(parse_canonical(encode(later))) == later
