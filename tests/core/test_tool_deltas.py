"""Native calls put together from stream pieces, with every oddity of providers that we know of."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.messages import NativeCall
from devassist.core.tool_deltas import CallAssembler


def piece(
    index: int | None = None, call_id: str | None = None, name: str | None = None, args: object = None
) -> dict[str, Any]:
    made: dict[str, Any] = {"function": {"name": name, "arguments": args}}
    if index is not None:
        made["index"] = index
    return made | ({"id": call_id} if call_id is not None else {})


def assembled(*deltas: list[Any]) -> tuple[NativeCall, ...]:
    calls = CallAssembler()
    for delta in deltas:
        calls.add(delta)
    return calls.result()


def named(calls: tuple[NativeCall, ...]) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in calls]


def test_interleaved_by_index() -> None:
    """Pieces of two calls that alternate by index each find their own."""
    calls = assembled(
        [piece(0, "a", "f", '{"x"'), piece(1, "b", "g", '{"y"')], [piece(1, args=":2}")], [piece(0, args=":1}")]
    )
    assert calls == (NativeCall("a", "f", '{"x":1}'), NativeCall("b", "g", '{"y":2}'))


def test_two_calls_share_an_index() -> None:
    """Another id and name on the same index begin another call."""
    calls = assembled([piece(0, "a", "f", '{"q":"1"}')], [piece(0, "b", "f", '{"q":"2"}')])
    assert named(calls) == [("f", '{"q":"1"}'), ("f", '{"q":"2"}')]
    assert [call.id for call in calls] == ["a", "b"]


def test_two_calls_share_an_index_and_have_no_id() -> None:
    """Once the arguments are complete, a piece with a name begins another call."""
    assert named(assembled([piece(0, None, "f", '{"q":1}')], [piece(0, None, "g", "{}")])) == [
        ("f", '{"q":1}'),
        ("g", "{}"),
    ]


def test_without_index() -> None:
    """Without an index a new id begins a call and nameless pieces go on with the last one."""
    calls = assembled(
        [piece(None, "a", "f", '{"q"')],
        [piece(args=":1}")],
        [piece(None, "b", "g", "")],
        [piece(args="{}")],
    )
    assert calls == (NativeCall("a", "f", '{"q":1}'), NativeCall("b", "g", "{}"))


def test_new_id_on_every_piece() -> None:
    """A gateway that makes up an id for every piece still gives one call, under the first id."""
    calls = assembled([piece(0, "a", "f", '{"q"')], [piece(0, "b", None, ":")], [piece(0, "c", "f", "1}")])
    assert calls == (NativeCall("a", "f", '{"q":1}'),)


def test_arguments_sent_again_as_a_whole() -> None:
    """A last piece that repeats the whole arguments changes nothing."""
    assert named(assembled([piece(0, "a", "f", '{"q":1}')], [piece(0, "a", "f", '{"q":1}')])) == [("f", '{"q":1}')]


def test_empty_object_kept_the_place() -> None:
    """An empty object before the real arguments gives way to them."""
    assert named(assembled([piece(0, "a", "f", "{}")], [piece(0, args='{"q"')], [piece(0, args=":1}")])) == [
        ("f", '{"q":1}')
    ]


def test_arguments_as_an_object() -> None:
    """Arguments that a server has parsed already become JSON text again."""
    assert named(assembled([piece(0, "a", "f", {"q": "é"})])) == [("f", '{"q": "é"}')]


def test_name_in_a_later_piece() -> None:
    """The name may come after the id."""
    assert assembled([piece(0, "a")], [piece(0, None, "f")], [piece(0, args="{}")]) == (NativeCall("a", "f", "{}"),)


def test_missing_ids_are_made_up_alike() -> None:
    """Calls without an id get distinct ones that depend on nothing but the call."""
    deltas = [piece(0, None, "f", '{"q":1}')], [piece(1, "", "f", '{"q":1}')]
    first, second = assembled(*deltas)
    assert first.id.startswith("call_")
    assert first.id != second.id
    assert assembled(*deltas) == (first, second)


def test_one_id_for_two_calls() -> None:
    """Two whole calls that share an id stay two, with ids of their own."""
    first, second = assembled([piece(0, "a", "f", '{"q":1}'), piece(1, "a", "f", '{"q":2}')])
    assert named((first, second)) == [("f", '{"q":1}'), ("f", '{"q":2}')]
    assert first.id != second.id


@pytest.mark.parametrize("junk", [None, 1, "x", [], {}, {"index": 0}, {"function": 3}, {"function": {"name": 1}}])
def test_what_is_no_piece(junk: object) -> None:
    """What is no piece of a call makes none."""
    assert assembled([junk]) == ()


@given(
    st.lists(
        st.tuples(st.sampled_from(["f", "g"]), st.dictionaries(st.text(max_size=3), st.integers())),
        min_size=1,
        max_size=4,
    ),
    st.data(),
)
def test_any_cut_gives_the_same_calls(wanted: list[tuple[str, dict[str, int]]], data: st.DataObject) -> None:
    """However the arguments of well-formed calls are cut, they join to what was sent."""
    deltas: list[list[Any]] = []
    for index, (name, args) in enumerate(wanted):
        text = json.dumps(args)
        deltas.append([piece(index, f"id{index}", name, "")])
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
        deltas += [[piece(index, args=text[a:b])] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert assembled(*deltas) == tuple(
        NativeCall(f"id{i}", name, json.dumps(args)) for i, (name, args) in enumerate(wanted)
    )


@given(
    st.lists(
        st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "index": st.integers(0, 2) | st.none(),
                    "id": st.sampled_from(["", "a", "b"]) | st.none(),
                    "function": st.fixed_dictionaries(
                        {},
                        optional={
                            "name": st.sampled_from(["", "f", "g", "fg"]) | st.none(),
                            "arguments": st.sampled_from(["", "{", "}", "{}", '{"a":', "1}"]) | st.none(),
                        },
                    ),
                },
            ),
            max_size=3,
        ),
        max_size=6,
    )
)
def test_total_and_lossless(deltas: list[list[Any]]) -> None:
    """Any pieces give some calls, with distinct ids, and no name is ever joined from two."""
    calls = assembled(*deltas)
    assert len({call.id for call in calls}) == len(calls)
    assert all(call.name in ("", "f", "g", "fg") for call in calls)
