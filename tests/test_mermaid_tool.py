"""The judge of graphs is itself judged: it takes what Mermaid draws, refuses what it does not, and reads labels."""

from __future__ import annotations

from tests.mermaid import check


def test_good_diagrams_pass_and_bad_ones_name_their_fault() -> None:
    """One batch, answered in order."""
    good, bad, empty, sequence = check(
        [
            'flowchart TD\n  a["policy 报销"] -->|"ok"| b("2")',
            "flowchart TD\n  a[unclosed",
            "",
            "sequenceDiagram\n  A->>B: hi",
        ]
    )
    assert good.ok
    assert (good.type, good.nodes, good.edges) == ("flowchart-v2", 2, 1)
    assert (good.texts, good.edge_texts) == (("policy 报销", "2"), ("ok",))
    assert not bad.ok
    assert "Parse error" in (bad.error or "")
    assert not empty.ok
    assert sequence.type == "sequence"


def test_labels_are_read_as_a_reader_sees_them() -> None:
    """Entities come back as their characters; what Mermaid would swallow or turn into something else does not."""
    (result,) = check(
        [
            "flowchart TD\n"
            '  a["#quot;#lt;b#gt;#35;1#59;#quot; #92;n 报销"]\n'
            '  b["<b>bold</b>"]\n'
            '  c["C:\\new"]\n'
            '  d["fa:fa-user x"]\n'
            '  e["$$x$$"]\n'
            '  f["1. first _x_ **y**"]'
        ]
    )
    assert result.ok, result.error
    assert result.texts[0] == '"<b>#1;" \\n 报销'
    assert result.texts[1] != "<b>bold</b>"
    assert result.texts[2] != "C:\\new"
    assert result.texts[3] != "fa:fa-user x"
    assert result.texts[4] != "$$x$$"
    assert result.texts[5] == "1. first _x_ **y**"


def test_what_mermaid_refuses_to_draw_is_refused() -> None:
    """More than 500 edges, or more than 50,000 characters, parse as text and yet are never drawn."""
    edges = "flowchart TD\n" + "\n".join(f"  n{i} --> n{i + 1}" for i in range(501))
    long = "flowchart TD\n" + "\n".join(f'  n{i}["{"x" * 100}"]' for i in range(500))
    many, large = check([edges, long])
    assert "Edge limit exceeded" in (many.error or "")
    assert "50000" in (large.error or "")
