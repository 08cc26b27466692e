"""An ingestion that is interrupted loses nothing and does nothing twice: Ctrl-C, and kill -9, of the real command."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import WAIT_S, lines, run, start

FILES = 60


@pytest.fixture
def files(place: Path) -> Path:
    root = place / "文件"
    for number in range(FILES):
        path = root / f"部门{number % 7}" / f"规定{number:02}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        clauses = "\n\n".join(f"第{n}条 第 {number} 号规定的第 {n} 项内容。" for n in "一二三四五")
        path.write_text(f"# 规定 {number}\n\n{clauses}\n", "utf-8")
    return root


def told_after(process: subprocess.Popen[str], number: int, sig: int) -> tuple[list[dict[str, Any]], int]:
    """What the command told when the signal was sent after so many files, and how it ended."""
    assert process.stdout is not None
    told = [json.loads(process.stdout.readline()) for _ in range(number)]
    process.send_signal(sig)
    rest, _ = process.communicate(timeout=WAIT_S)
    return told + lines(rest), process.returncode


def documents() -> dict[str, dict[str, Any]]:
    result = run("kb", "list", "--collection", "docs", "--json")
    return {row["doc_id"]: row for row in lines(result.stdout)}


def finished(files: Path, told: list[dict[str, Any]]) -> None:
    """The next call does the rest, what was told stays as it is, and each document is there once with its clauses."""
    there = documents()
    assert {one["doc_id"] for one in told} <= there.keys()
    again = run("kb", "ingest", "--json", str(files))
    assert again.returncode == 0, again.stderr
    outcomes = {one["name"]: one["outcome"] for one in lines(again.stdout)}
    assert len(outcomes) == FILES
    assert {outcomes[one["name"]] for one in told} == {"unchanged"}
    assert sum(outcome == "added" for outcome in outcomes.values()) == FILES - len(there)
    rows = documents()
    assert len(rows) == FILES
    assert {(row["revisions"], row["clauses"]) for row in rows.values()} == {(1, 5)}
    result = run("kb", "search", "第 41 号规定的第三项内容", "--top-k", "50", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    ids = [hit["clause_id"] for hit in found["hits"]]
    assert len(ids) == len(set(ids))


def test_ctrl_c_ends_after_the_file_in_hand(files: Path) -> None:
    """Exit code 130; what was told is there and nothing else; the same command goes on."""
    told, code = told_after(start("kb", "ingest", "--json", str(files)), 3, signal.SIGINT)
    assert code == 130
    assert 3 <= len(told) < FILES
    assert len(documents()) == len(told)
    finished(files, told)


@pytest.mark.parametrize("number", [1, 5, 23])
def test_kill_9_loses_nothing_and_doubles_nothing(files: Path, number: int) -> None:
    """Whatever the command was doing, every file that it had told of is there, and at most one more."""
    told, code = told_after(start("kb", "ingest", "--json", str(files)), number, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert len(told) <= len(documents()) <= len(told) + 1
    finished(files, told)
