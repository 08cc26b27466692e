"""``trace`` on a data directory that no server drives."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from devassist.bootstrap import open_services
from devassist.config import Settings
from devassist.core.scope import Scope
from devassist.ports.audit import Difference, ReplayReport
from devassist.runtime.services import Services
from tests.cli.kit import POLICY, invoke, lines


def _ask(text: str, *args: str) -> dict[str, Any]:
    return json.loads(invoke("ask", text, "--json", *args).stdout)


def test_list_is_newest_first_and_goes_on_where_it_ended() -> None:
    """Pages follow one another without gap or repetition; filters choose."""
    ids = [_ask(f"question {n}", "--conversation", f"c{n % 2}")["trace_id"] for n in range(5)]
    result = invoke("trace", "list", "--json", "--limit", "3")
    first = lines(result.stdout)
    assert [row["trace_id"] for row in first] == ids[:1:-1]
    assert f"more: --before {ids[2]}" in result.stderr
    rest = lines(invoke("trace", "list", "--json", "--before", ids[2]).stdout)
    assert [row["trace_id"] for row in rest] == ids[1::-1]
    assert len(lines(invoke("trace", "list", "--json", "--conversation", "c0").stdout)) == 3
    assert len(lines(invoke("trace", "list", "--json", "--user", "local", "--since", "1h").stdout)) == 5
    for nothing in (("--user", "nobody"), ("--status", "failed"), ("--until", "1h")):
        result = invoke("trace", "list", *nothing)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no runs\n")


def test_the_table_has_one_line_a_run() -> None:
    """A message of several lines, wide or with control characters, stays in its line."""
    _ask("第一行\n第二行 \x1b[31m red")
    head, row = invoke("trace", "list").stdout.splitlines()
    assert head.split() == ["TIME", "TRACE_ID", "STATUS", "AGENT", "USER", "MESSAGE"]
    assert row.endswith("第一行 第二行 \\x1b[31m red")


def test_show_tells_the_run() -> None:
    """Steps with thought and observation, answer, source and usage."""
    answer = _ask(POLICY)
    page = invoke("trace", "show", answer["trace_id"]).stdout
    for part in (POLICY, "Step 1  get_policy", "thought", "observed", "Answer", "85%", "Source", "model calls 2"):
        assert part in page, part
    assert "more lines" in page
    assert "more lines" not in invoke("trace", "show", answer["trace_id"], "--full").stdout


def test_show_json_is_the_answer_object() -> None:
    """What ask printed can be had again."""
    answer = _ask(POLICY)
    assert json.loads(invoke("trace", "show", answer["trace_id"], "--json").stdout) == answer


def test_show_events_gives_what_is_stored() -> None:
    """One line an event as JSON, in order and with its hash."""
    answer = _ask("hi")
    rows = lines(invoke("trace", "show", answer["trace_id"], "--events", "--json").stdout)
    assert [row["seq"] for row in rows] == list(range(len(rows)))
    assert rows[0]["kind"] == rows[0]["body"]["k"] == "run_started"
    assert "run_finished" in invoke("trace", "show", answer["trace_id"], "--events").stdout


def test_graph_is_mermaid_text() -> None:
    """It can be piped into a file and drawn."""
    assert invoke("trace", "graph", _ask("hi")["trace_id"], "--full").stdout.startswith("flowchart TD\n")


def test_a_beginning_of_the_id_is_enough_where_one_run_has_it() -> None:
    """Dashes and capitals do no harm; an ambiguous beginning lists what it could mean."""
    one, two = _ask("hi")["trace_id"], _ask("ho")["trace_id"]
    uuid = f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}".upper()
    for given in (one[:20], uuid):
        assert one in invoke("trace", "show", given).stdout
    result = invoke("trace", "show", one[:8])
    assert result.exit_code == 1
    assert one in result.stderr
    assert two in result.stderr


@pytest.mark.parametrize("verb", ["show", "graph", "verify", "replay", "cancel"])
@pytest.mark.parametrize("trace_id", ["0" * 32, "zz", "00000000"])
def test_a_wrong_id_ends_with_1(verb: str, trace_id: str) -> None:
    """The error says that there is no such run, or what an id looks like."""
    _ask("hi")
    result = invoke("trace", verb, trace_id)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Error: run_not_found: " in result.stderr


def test_verify_names_what_it_checked_and_the_faulty_row(place: Path) -> None:
    """A changed column of the head is found, alone and among all runs."""
    good, bad = _ask("hi")["trace_id"], _ask("ho")["trace_id"]
    assert "checked" in invoke("trace", "verify", good).stdout
    assert invoke("trace", "verify", "--all").exit_code == 0
    journal = apsw.Connection(str(place / "data" / "journal.db"))
    journal.execute("UPDATE heads SET conversation = 'another' WHERE stream = ?", (bytes.fromhex(bad),))
    journal.close()
    result = invoke("trace", "verify", bad)
    assert result.exit_code == 1
    assert f"FAULT    heads(stream={bad}" in result.stdout
    assert json.loads(invoke("trace", "verify", bad, "--json").stdout)["ok"] is False
    result = invoke("trace", "verify", "--all")
    assert result.exit_code == 1
    assert "2 runs" in result.stdout
    assert good not in result.stdout
    assert [row["ok"] for row in lines(invoke("trace", "verify", "--all", "--json").stdout)] == [False, True]


def test_a_run_that_cannot_be_read_hides_no_other(place: Path) -> None:
    """The list says which row is wrong; verify says more."""
    good, bad = _ask("hi")["trace_id"], _ask("ho")["trace_id"]
    journal = apsw.Connection(str(place / "data" / "journal.db"))
    for (name,) in journal.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        journal.execute(f"DROP TRIGGER {name}")
    journal.execute("UPDATE events SET body = x'00' WHERE stream = ? AND seq = 0", (bytes.fromhex(bad),))
    journal.close()
    rows = lines(invoke("trace", "list", "--json").stdout)
    assert [row["trace_id"] for row in rows] == [bad, good]
    assert "seq=0" in rows[0]["unreadable"]
    assert rows[1]["unreadable"] is None
    assert "no JSON" in invoke("trace", "list").stdout
    assert invoke("trace", "show", bad).exit_code == 1
    assert invoke("trace", "verify", bad).exit_code == 1


def test_verify_wants_an_id_or_all() -> None:
    """Neither, or both, is wrong use."""
    assert invoke("trace", "verify").exit_code == 2
    assert invoke("trace", "verify", "0" * 32, "--all").exit_code == 2


def test_replay_ends_with_1_where_a_decision_comes_out_differently() -> None:
    """What is recorded and what is derived stand side by side."""
    trace_id = _ask("hi")["trace_id"]
    assert "same" in invoke("trace", "replay", trace_id).stdout
    difference = Difference(2, "decision", "final", "calls")
    result = invoke("trace", "replay", trace_id, opener=_with_auditor(_Replays((difference,))))
    assert result.exit_code == 1
    assert "seq 2, decision\n    recorded  final\n    derived   calls" in result.stdout


def test_a_directory_without_a_journal_is_not_made(place: Path) -> None:
    """A mistyped --data-dir is said to hold nothing."""
    result = invoke("trace", "list", "--data-dir", "typo")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no journal at" in result.stderr
    assert not (place / "typo").exists()


def test_reading_asks_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that is away is no reason to hide what was recorded."""
    trace_id = _ask("hi")["trace_id"]
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert invoke("trace", "show", trace_id).exit_code == 0


def test_missing_keys_are_not_made_anew(place: Path) -> None:
    """Reading without the keys would show every text as erased."""
    _ask("hi")
    (place / "data.keys").rename(place / "elsewhere")
    result = invoke("trace", "list")
    assert result.exit_code == 1
    assert "DEVASSIST_KEYS_DIR" in result.stderr
    assert not (place / "data.keys").exists()


class _Replays:
    def __init__(self, differences: tuple[Difference, ...]) -> None:
        self._differences = differences

    async def replay(self, scope: Scope, stream: bytes) -> ReplayReport:
        return ReplayReport(stream.hex(), False, 3, 0, self._differences)


def _with_auditor(auditor: Any) -> Callable[..., Awaitable[Services]]:
    async def opener(settings: Settings, *, drive: bool) -> Services:
        return replace(await open_services(settings, drive=drive), auditor=auditor)

    return opener
