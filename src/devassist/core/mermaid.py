"""A graph as Mermaid flowchart text that Mermaid 11 parses and draws whatever its labels hold.

A label is quoted, and all of ASCII but letters, digits and single spaces is written as numeric entities, so nothing in
it can end the label or begin a statement, a directive, a tag, an icon, a formula or markdown. The text drawn is
``shown``: the label itself, with line ends as ``↵``, tabs as spaces, other control characters and lone surrogates as
U+FFFD, cut after 120 characters with ``…``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

LABEL = 120
MAX_EDGES = 400
MAX_CHARACTERS = 50_000

Shape = Literal["stadium", "box", "round", "double", "hexagon", "slanted", "flag"]
Mark = Literal["", "failed", "doubt", "fault", "open"]

_SHAPES: dict[Shape, tuple[str, str]] = {
    "stadium": ("([", "])"),
    "box": ("[", "]"),
    "round": ("(", ")"),
    "double": ("[[", "]]"),
    "hexagon": ("{{", "}}"),
    "slanted": ("[/", "/]"),
    "flag": (">", "]"),
}
_MARKS: dict[Mark, str] = {
    "failed": "fill:#fee2e2,stroke:#b91c1c,color:#450a0a",
    "doubt": "fill:#fef3c7,stroke:#b45309,color:#451a03,stroke-width:3px",
    "fault": "fill:#ffedd5,stroke:#c2410c,color:#431407",
    "open": "stroke-dasharray:5 5",
}
_LINE_END = re.compile("\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")
_UNSHOWN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_PLACEHOLDERS = frozenset("ﬂ°¶ß")
"""Characters by which Mermaid itself marks entities while it parses."""


class Node(NamedTuple):
    """``step`` is the run's step that the node belongs to, -1 for none."""

    label: str
    shape: Shape = "box"
    mark: Mark = ""
    step: int = -1


class Edge(NamedTuple):
    """From node index to node index. ``dashed``: a signal, or a loose end."""

    source: int
    target: int
    label: str = ""
    dashed: bool = False


class Graph(NamedTuple):
    nodes: Sequence[Node]
    edges: Sequence[Edge]


_SPECIAL = re.compile(r"[^0-9A-Za-z\u4e00-\u9fff ]|\A | \Z|(?<= ) ")
"""What may need an entity: all but letters, digits, ideographs and single spaces between them."""
_WRITTEN = [c if c.isalnum() or c == " " else f"#{ord(c)};" for c in map(chr, range(128))]
"""How ASCII is written where its spaces are single ones within the text: one pass without a function per character."""


def shown(label: str, limit: int = LABEL) -> str:
    """What a reader sees of ``label``."""
    if len(label) <= limit and label.isprintable():
        return label
    begun = label[: 2 * limit + 2]  # a line end of two characters becomes one
    text = _UNSHOWN.sub("\ufffd", _LINE_END.sub("↵", begun).replace("\t", " "))
    return text if len(text) <= limit else f"{text[:limit]}…"


def escape(label: str, limit: int = LABEL) -> str:
    """``label`` as it may stand between quotes; spaces at its ends, and repeated ones, are kept."""
    text = shown(label, limit)
    if text.isprintable() and "  " not in text and text == text.strip() and _PLACEHOLDERS.isdisjoint(text):
        return text.translate(_WRITTEN)
    return _SPECIAL.sub(_written, text)


def _written(match: re.Match[str]) -> str:
    c = match[0]
    plain = c.isalnum() if c.isascii() else c.isprintable() and c not in _PLACEHOLDERS
    return c if plain else f"#{ord(c)};"


def characters(text: str) -> int:
    """Length as Mermaid counts it: UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


def flowchart(graph: Graph) -> str:
    """The whole graph as text."""
    lines = ["flowchart TD"]
    for index, node in enumerate(graph.nodes):
        begin, end = _SHAPES[node.shape]
        lines.append(f'  n{index}{begin}"{escape(node.label) or "#32;"}"{end}')
    for edge in graph.edges:
        arrow = "-.->" if edge.dashed else "-->"
        label = f'|"{escape(edge.label)}"|' if edge.label else ""
        lines.append(f"  n{edge.source} {arrow}{label} n{edge.target}")
    for mark, style in _MARKS.items():
        marked = ",".join(f"n{index}" for index, node in enumerate(graph.nodes) if node.mark == mark)
        if marked:
            lines += [f"  classDef {mark} {style}", f"  class {marked} {mark}"]
    return "\n".join(lines) + "\n"


def bounded(graph: Graph) -> str:
    """The whole graph where Mermaid's limits allow it, else its head and tail around a node that counts the rest."""
    text = flowchart(graph) if len(graph.edges) <= MAX_EDGES else ""
    keep = MAX_EDGES
    while not text or characters(text) > MAX_CHARACTERS:
        keep = keep * 4 // 5
        part = collapsed(graph, keep)
        text = flowchart(part) if len(part.edges) <= MAX_EDGES or keep <= 2 else ""
        if keep <= 2:
            break
    return text


def collapsed(graph: Graph, keep: int) -> Graph:
    """The first and last ``keep`` nodes together; what lies between is one node that says how much it stands for."""
    count = len(graph.nodes)
    if count <= keep:
        return graph
    head = (keep + 1) // 2
    tail = count - (keep - head)
    steps = {n.step for n in graph.nodes[head:tail] if n.step >= 0}
    rest = Node(f"… {len(steps)} steps ({tail - head} nodes) left out; the full graph has them", "slanted", "open")

    def place(index: int) -> int:
        return index if index < head else head if index < tail else index - tail + head + 1

    edges: dict[tuple[int, int], Edge] = {}
    for number, edge in enumerate(graph.edges):
        source, target = place(edge.source), place(edge.target)
        if head not in (source, target):
            edges[-1, number] = edge._replace(source=source, target=target)
        elif source != target:
            edges.setdefault((source, target), Edge(source, target))
    return Graph([*graph.nodes[:head], rest, *graph.nodes[tail:]], list(edges.values()))
