"""Graphs: valid Mermaid whatever the labels hold, within Mermaid's limits, saying what was left out."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.events import WaitBegun
from devassist.core.graph import ERASED, build, mermaid
from devassist.core.mermaid import LABEL, Edge, Graph, Node, Shape, bounded, characters, collapsed, flowchart, shown
from devassist.core.signals import RunRestored
from tests.core.build import Script
from tests.core.runs import (
    SCRIPTS,
    cancelled,
    doubtful,
    failed,
    faulty,
    parallel,
    retried,
    tool_round,
    two_tools,
)
from tests.mermaid import check

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parents[1] / "cases" / "group_f.jsonl").read_text().splitlines())
}
SHAPES: tuple[Shape, ...] = ("stadium", "box", "round", "double", "hexagon", "slanted", "flag")
TEXT = r'"(?:[A-Za-z0-9 ]|#[0-9]{1,7};|[^\x00-\x9f\u2028\u2029\ud800-\udfff])+"'
LINES = re.compile(
    rf"flowchart TD|  n\d+(?:\(\[|\[|\(|\[\[|\{{\{{|\[/|>){TEXT}(?:\]\)|\]|\)|\]\]|\}}\}}|/\])"
    rf"|  n\d+ (?:-->|-\.->)(?:\|{TEXT}\|)? n\d+|  classDef [a-z]+ [a-z0-9#:,\- ]+|  class n\d+(?:,n\d+)* [a-z]+"
)


def of_labels(labels: Sequence[str]) -> Graph:
    """A chain whose nodes and edges bear the labels, in all shapes."""
    nodes = [Node(label, SHAPES[i % len(SHAPES)]) for i, label in enumerate(labels)]
    return Graph(nodes, [Edge(i, i + 1, label) for i, label in enumerate(labels[:-1])])


def grammatical(text: str) -> bool:
    return all(LINES.fullmatch(line) for line in text.removesuffix("\n").split("\n"))


def test_every_state_of_every_run_is_a_diagram() -> None:
    """Runs of all kinds, cut after any event, give text that Mermaid parses, with every node and edge."""
    graphs = [
        build(run.events[:length], run.text)
        for run in (make() for make in SCRIPTS.values())
        for length in range(1, len(run.events) + 1)
    ]
    texts = [flowchart(graph) for graph in graphs]
    assert all(map(grammatical, texts))
    for graph, result in zip(graphs, check(texts), strict=True):
        assert result.ok, result.error
        assert (result.nodes, result.edges) == (len(graph.nodes), len(graph.edges))
        assert result.texts == tuple(shown(node.label) for node in graph.nodes)
        assert result.edge_texts == tuple(shown(edge.label) for edge in graph.edges)


def test_labels_from_the_field() -> None:
    """Brackets, quotes, reserved words, directives, comment marks and HTML are drawn as they were typed."""
    labels = [CASES["F01"]["input"], *CASES["F02"]["input"], CASES["F04"]["input"], CASES["F05"]["input"]]
    labels += [
        CASES["F12"]["input"],
        "fa:fa-user",
        "$$x^2$$",
        "C:\\new \\n",
        "`md`",
        "#35; #quot; ﬂ°°35¶ß",
        "style a:b#1;",
    ]
    labels += [
        "1. one",
        "- item",
        "  two  spaces  ",
        "%%{init: {}}%%",
        "<br/>",
        "&amp;#60;",
        "👩‍👩‍👧 e\u0301 \u202eabc",
        "--> |x|",
    ]
    text = flowchart(of_labels(labels))
    assert grammatical(text)
    (result,) = check([text])
    assert result.ok, result.error
    assert result.texts == tuple(shown(label) for label in labels)
    assert result.edge_texts == tuple(shown(label) for label in labels[:-1])
    plain = [label for label in labels if len(label) <= LABEL and not re.search("[\n\r\u2028]", label)]
    assert all(shown(label) == label for label in plain)
    assert "%%" not in text


@pytest.mark.parametrize(
    ("reason", "shows"),
    [("backoff", "before another try"), ("breaker", "for the provider"), ("child", "for a child run")],
)
def test_a_wait_says_what_for(reason: Any, shows: str) -> None:
    """Each reason to wait has words of its own: a breaker that is open is no child run."""
    script = Script("go")
    script.think()
    script.model_failed()
    script.add(WaitBegun(reason, script.now.at + 1))
    (label,) = [node.label for node in build(script.events, script.text).nodes if node.label.startswith("Wait")]
    assert shows in label


@pytest.mark.parametrize(
    ("outcome", "code", "reason", "label"),
    [
        ("unknown", "outcome_unknown", "settlement", "outcome unknown"),
        ("needs_approval", "needs_approval", "approval", "needs approval"),
        ("unknown", "service_fault", "settlement", "outcome unknown service_fault"),
    ],
)
def test_an_outcome_is_said_once(outcome: Any, code: str, reason: str, label: str) -> None:
    """A code that says no more than the outcome does not stand beside it."""
    script = Script("go")
    script.think()
    script.calls(("pay", {}, "once"))
    script.attempt()
    script.returned(outcome=outcome, result=None, code=code)
    script.held(reason=reason)
    edges = [edge.label for edge in build(script.events, script.text).edges]
    assert any(each.partition(" · ")[0] == label for each in edges), edges


def test_a_rewind_of_the_journal_is_drawn() -> None:
    """Why a call is suddenly asked about can be seen: the signal stands in the picture."""
    script = Script("go")
    script.think()
    script.add(RunRestored("restored:1", 1, 2))
    assert any("earlier state" in node.label for node in build(script.events, script.text).nodes)


def test_ids_are_generated() -> None:
    """No id is taken from a name."""
    text = flowchart(of_labels(CASES["F02"]["input"]))
    assert set(re.findall(r"(?m)^  (\w+)", text)) == {f"n{i}" for i in range(11)}


def test_every_character_of_the_case_is_escaped() -> None:
    """Quotes, brackets, braces, angle brackets, bars, ampersands and hashes never stand in a label."""
    (line,) = flowchart(Graph([Node(CASES["F01"]["input"] + " & #")], [])).splitlines()[1:]
    label = line.removeprefix('  n0["').removesuffix('"]')
    assert not re.search(r'["()\[\]{}<>|&]', label)
    assert re.sub(r"#\d+;", "", label).isprintable()
    assert "#" not in re.sub(r"#\d+;", "", label)


def test_long_labels_are_cut() -> None:
    """A label shows 120 characters and an ellipsis; line ends and controls are visible and break nothing."""
    case = shown(CASES["F04"]["input"])
    assert case.startswith("line1↵line2↵`md` %%{init:")
    assert (len(case), case[-1]) == (LABEL + 1, "…")
    assert shown("a\r\nb\rc\td\x00e\ud800") == "a↵b↵c d\ufffde\ufffd"
    assert shown("\r\n" * 500) == "↵" * LABEL + "…"
    assert shown("x" * LABEL) == "x" * LABEL


@given(st.lists(st.text(max_size=300), min_size=1, max_size=4))
def test_any_label_keeps_the_grammar(labels: list[str]) -> None:
    """No text leaves its quotes: each line is one node, edge or class."""
    text = flowchart(of_labels(labels))
    assert grammatical(text)
    assert text.count("\n") == 2 * len(labels)


def test_random_labels_are_drawn_as_they_are() -> None:
    """Strings put together from what Mermaid, HTML and markdown treat specially come back from Mermaid unchanged."""
    parts = [
        '"',
        "`",
        "#",
        ";",
        "#35;",
        "end",
        "\n",
        "\\n",
        "%%",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "<b>",
        "</b>",
        "&lt;",
        "|",
    ]
    parts += [
        "style x:y",
        "classDef a b:#c;",
        "fa:fa-x",
        "$$",
        "*",
        "_",
        "~",
        "---",
        "ﬂ°",
        "¶ß",
        "长",
        "😀",
        " ",
        "\t",
        "1.",
        ":::a",
    ]
    dice = random.Random(11)
    labels = ["".join(dice.choices(parts, k=dice.randrange(1, 30))) for _ in range(400)]
    chunks = [of_labels(labels[at : at + 40]) for at in range(0, len(labels), 40)]
    for graph, answer in zip(chunks, check([flowchart(graph) for graph in chunks]), strict=True):
        assert answer.ok, answer.error
        assert answer.texts == tuple(shown(node.label) for node in graph.nodes)


def steps_of(count: int, label: str) -> Script:
    script = Script("go on")
    for number in range(count):
        tool_round(script, "search_docs", {"query": f"{number} {label}"}, {"hits": []})
    return script


def test_a_run_of_700_steps_fits() -> None:
    """The default export stays within 400 edges and 50,000 characters, says what it left out, and keeps both ends."""
    case = CASES["F07"]["input"]
    script = steps_of(case["steps"], "(" * case["label_length"])
    text = mermaid(script.events, script.text)
    (result,) = check([text])
    assert result.ok, result.error
    assert result.edges <= 400
    assert characters(text) <= 50_000
    (left,) = [t for t in result.texts if "left out" in t]
    assert int(left.split()[1]) > 500
    assert result.texts[0] == "Message: go on"
    assert result.texts[-1].startswith('search_docs({"query": "699 ')
    full = mermaid(script.events, script.text, full=True)
    assert full.count("search#95;docs#40;") == 700
    assert grammatical(full)


def test_a_graph_within_the_limits_is_whole() -> None:
    """Nothing is left out before it has to be: 130 short steps are drawn in full."""
    script = steps_of(130, "")
    assert mermaid(script.events, script.text) == mermaid(script.events, script.text, full=True)


def test_wide_labels_collapse_too() -> None:
    """Characters count as Mermaid counts them, in UTF-16 units."""
    text = bounded(of_labels(["😀" * 120 for _ in range(390)]))
    assert characters(text) <= 50_000
    assert "left out" in text


def test_one_decision_with_many_calls_collapses() -> None:
    """A fan of 600 calls is bounded as well: edges to what was left out become one."""
    star = Graph([Node("0")] * 602, [e for i in range(1, 601) for e in (Edge(0, i), Edge(i, 601))])
    text = bounded(star)
    (result,) = check([text])
    assert result.ok, result.error
    assert result.edges <= 400
    part = collapsed(star, 11)
    assert len(part.nodes) == 12
    assert all(0 <= e.source < 12 and 0 <= e.target < 12 for e in part.edges)


def node(graph: Graph, begin: str) -> Node:
    return next(n for n in graph.nodes if n.label.startswith(begin))


def test_what_went_wrong_is_marked() -> None:
    """Failed attempts, faults, doubts and open attempts bear classes."""
    assert node(build(retried().events, retried().text), "Model attempt 1").mark == "failed"
    assert node(build(faulty().events, faulty().text), "Fault").mark == "fault"
    assert node(build(doubtful().events, doubtful().text), "send_mail(").mark == "doubt"
    assert node(build(failed().events, failed().text), "Failed, step_limit").mark == "failed"
    assert node(build(two_tools().events[:2], two_tools().text), "Model attempt").mark == "open"
    assert node(build(two_tools().events, two_tools().text), "search_docs(").mark == ""


def test_calls_fan_out_and_in() -> None:
    """Calls of one decision hang from it, and all lead to the next model attempt."""
    script = parallel()
    graph = build(script.events, script.text)
    fan = [e for e in graph.edges if e.label.startswith("call ")]
    assert [e.label for e in fan] == ["call 0", "call 1", "call 2"]
    assert len({e.source for e in fan}) == 1
    joined = [e for e in graph.edges if e.source in {f.target for f in fan}]
    assert len({e.target for e in joined}) == 1


def test_a_cancel_is_a_signal_beside_the_story() -> None:
    """The request hangs from what was under way and leads to the end, both dashed."""
    script = cancelled()
    graph = build(script.events, script.text)
    dashed = [e for e in graph.edges if e.dashed]
    assert [graph.nodes[e.target].label for e in dashed] == ["Cancel requested", "Ended: cancelled"]
    assert graph.nodes[dashed[0].source].label.startswith("send_mail(")


def test_erased_texts_leave_the_shape() -> None:
    """Without texts the graph still tells what happened."""
    script = two_tools()
    before = build(script.events, script.text)
    script.erased = set(script.texts)
    after = build(script.events, script.text)
    assert after.edges == before.edges
    assert after.nodes[0].label == f"Message: {ERASED}"


def test_no_event_is_a_diagram_too() -> None:
    """An empty list gives an empty flowchart."""
    (result,) = check([mermaid([], str)])
    assert result.ok
