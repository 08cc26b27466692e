"""The shared cases of group B and what tests of adapters need in common."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "cases" / "group_b.jsonl"


@cache
def _cases() -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in map(json.loads, FILE.read_text("utf-8").splitlines())}


def case(name: str) -> dict[str, Any]:
    """The case of this id, as it stands in the file."""
    return _cases()[name]
