"""The published failures of crashes, queues and streams: where each is shown not to happen here."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
CASES = [json.loads(line) for line in (TESTS / "cases" / "group_c.jsonl").read_text("utf-8").splitlines()]


def _shown() -> dict[str, set[str]]:
    """The tests by the cases that their sentences, or their module's, name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        module = ast.parse(path.read_text("utf-8"))
        tests = [n for n in module.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        for test in (t for t in tests if t.name.startswith("test_")):
            for case in re.findall(r"\bC\d\d\b", f"{ast.get_docstring(module)} {ast.get_docstring(test)}"):
                found[case].add(f"{path.name}::{test.name}")
    return found


def test_every_case_is_shown_somewhere() -> None:
    """A case is named by the tests that show it."""
    shown, cases = _shown(), {case["id"] for case in CASES}
    assert len(cases) == len(CASES) > 10
    assert cases - shown.keys() == set()
