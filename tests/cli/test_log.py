"""``log`` on a data directory that no server drives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.cli.kit import POLICY, invoke, lines


@pytest.fixture
def asked() -> dict[str, Any]:
    """A run that used a tool, and one that did not."""
    invoke("ask", "hello")
    return json.loads(invoke("ask", POLICY, "--json").stdout)


def _query(*args: str) -> list[dict[str, Any]]:
    return lines(invoke("log", "query", "--json", *args).stdout)


def test_every_filter_chooses(asked: dict[str, Any]) -> None:
    """Each one keeps what fits and nothing else."""
    trace_id, every = asked["trace_id"], _query("--limit", "1000")
    filters: dict[Sequence[str], Any] = {
        ("--trace", trace_id): lambda row: row["trace_id"] == trace_id,
        ("--kind", "model_replied"): lambda row: row["kind"] == "model_replied",
        ("--state", "final_answer"): lambda row: row["state"] == "FINAL_ANSWER",
        ("--tool", "get_policy"): lambda row: row["tool_name"] == "get_policy",
        ("--user", "local"): lambda row: row["user_id"] == "local",
        ("--conversation", asked["conversation_id"]): lambda row: row["conversation_id"] == asked["conversation_id"],
        ("--agent", "chat"): lambda row: row["agent"] == "chat",
        ("--step", "1"): lambda row: row["step"] == 1,
        ("--since", "1h"): lambda row: True,
        ("--until", "1h"): lambda row: False,
        ("--error", "nosuch"): lambda row: row["error_code"] == "nosuch",
    }
    for args, fits in filters.items():
        assert _query(*args, "--limit", "1000") == [row for row in every if fits(row)], args
    assert {row["trace_id"] for row in _query("--text", "退休")} == {trace_id}


def test_pages_follow_one_another(asked: dict[str, Any]) -> None:
    """--after takes the cursor that the page before printed."""
    every = _query("--oldest-first", "--limit", "1000")
    result = invoke("log", "query", "--json", "--oldest-first", "--limit", "5")
    assert lines(result.stdout) == every[:5]
    cursor = result.stderr.removeprefix("more: --after ").strip()
    assert _query("--oldest-first", "--limit", "1000", "--after", cursor) == every[5:]


def test_the_table_shows_who_what_and_when(asked: dict[str, Any]) -> None:
    """One line a row, wide texts cut to the room there is."""
    head, *rows = invoke("log", "query", "--trace", asked["trace_id"]).stdout.splitlines()
    assert head.split() == ["TIME", "TRACE", "KIND", "STEP", "STATE", "USER", "AGENT", "TOOL", "CODE", "MS", "TEXT"]
    assert len(rows) == len(_query("--trace", asked["trace_id"]))
    assert "run_finished" in rows[0]
    assert POLICY in rows[-1]


@pytest.mark.parametrize("args", ["--since soon", "--kind nosuch", "--state X", "--after x", "--limit 0", "--step -1"])
def test_a_wrong_filter_ends_with_2(asked: dict[str, Any], args: str) -> None:
    """What would be right is said; nothing is guessed."""
    result = invoke("log", "query", *args.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


def test_rebuild_derives_the_same_rows(asked: dict[str, Any]) -> None:
    """The number of rows is printed, and they are what they were."""
    before = _query("--limit", "1000")
    assert invoke("log", "rebuild").stdout == f"{len(before)} rows\n"
    assert _query("--limit", "1000") == before
