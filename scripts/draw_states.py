"""Draw docs/states.mmd from the transition table: ``python scripts/draw_states.py``.

``tests/architecture/test_states_doc.py`` checks that the file, and its copy in docs/architecture.md, are what the table
says. Signals are left out: they are legal in every open state and change none.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from devassist.core.signals import SIGNALS
from devassist.core.states import CLOSED, TABLE, State

TARGET = Path(__file__).parents[1] / "docs" / "states.mmd"


def diagram() -> str:
    """The table as a Mermaid state diagram; states and kinds stand in the order in which core declares them."""
    edges: defaultdict[tuple[State, State], list[str]] = defaultdict(list)
    for (state, kind), after in TABLE.items():
        if kind not in SIGNALS:
            edges[state, after].append(kind)
    lines = ["stateDiagram-v2", f"  [*] --> {State.INIT}: run_started"]
    lines += [f"  {state} --> {after}: {', '.join(kinds)}" for (state, after), kinds in edges.items()]
    lines += [f"  {state} --> [*]" for state in State if state in CLOSED]
    return "\n".join(lines) + "\n"


def main() -> int:
    TARGET.write_text(diagram(), "utf-8")
    sys.stdout.write(f"{TARGET}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
