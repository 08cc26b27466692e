"""The command beside a running server, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devassist.cli import remote
from tests.cli.kit import COMMAND, POLICY, WAIT_S, Serving, free_port, invoke, lines, run, script, serving, start

SLOW = [f"piece {number} " for number in range(30)]
RULES = (
    {"match": "slow", "replies": [{"chunks": [["Action: final: ", 0], *[[piece, 100] for piece in SLOW]]}]},
    {"match": "never", "delay_ms": 120_000, "replies": ["Action: final: too late"]},
    {"replies": ["Action: final: quick"]},
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, str]]:
    """One server for the tests that leave it running, and its data directory."""
    place = tmp_path_factory.mktemp("server")
    with serving(place / "data", **script(place / "s.json", *RULES)) as running:
        yield running, str(place / "data")


def _wait_for(data: str, status: str) -> str:
    """The newest run, once it has this status."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        rows = lines(invoke("trace", "list", "--limit", "1", "--json", "--data-dir", data).stdout)
        if rows and rows[0]["status"] == status:
            return rows[0]["trace_id"]
        time.sleep(0.1)
    raise AssertionError(f"no run became {status}")


def test_ask_talks_to_the_server(server: tuple[Serving, str], place: Path) -> None:
    """Nothing runs in this process, and the answer object is the one that the server has."""
    running, data = server
    result = invoke("--url", running.url, "ask", "quick?")
    assert (result.exit_code, result.stdout) == (0, "quick\n")
    assert "in this process" not in result.stderr
    answer = json.loads(invoke("ask", "quick?", "--json", "--url", running.url).stdout)
    shown = json.loads(invoke("trace", "show", answer["trace_id"], "--json", "--data-dir", data).stdout)
    assert shown == answer
    assert not (place / "data").exists()


def test_the_servers_refusal_is_a_usage_error(server: tuple[Serving, str]) -> None:
    """What the server refuses as wrong ends as it does in process."""
    result = invoke("ask", "hi", "--agent", "nosuch", "--url", server[0].url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "agent_not_found" in result.stderr


def test_traces_and_log_are_read_beside_the_server(server: tuple[Serving, str]) -> None:
    """Every reading verb works on the files while the server has them open."""
    running, data = server
    trace_id = json.loads(invoke("ask", "hello", "--json", "--url", running.url).stdout)["trace_id"]
    for verb in ("show", "graph", "verify", "replay"):
        result = invoke("trace", verb, trace_id, "--data-dir", data)
        assert result.exit_code == 0, (verb, result.output)
    rows = lines(invoke("log", "query", "--trace", trace_id, "--json", "--data-dir", data).stdout)
    assert {row["kind"] for row in rows} == {"run_started", "model_intended", "model_replied", "run_finished"}


def test_cancel_reaches_a_run_of_the_server(server: tuple[Serving, str]) -> None:
    """The signal is appended beside the server, which notices; who asked is told and ends with 1."""
    running, data = server
    asking = start("ask", "never", "--url", running.url)
    trace_id = _wait_for(data, "running")
    result = invoke("trace", "cancel", trace_id, "--data-dir", data)
    assert result.output == f"{trace_id}  cancelled\n"
    _, told = asking.communicate(timeout=WAIT_S)
    assert asking.returncode == 1
    assert f"trace {trace_id}  cancelled" in told
    assert "had ended already: cancelled" in invoke("trace", "cancel", trace_id, "--data-dir", data).output


def test_ctrl_c_leaves_the_run_alone(server: tuple[Serving, str]) -> None:
    """Who goes away is told how to come back; the run goes on."""
    running, data = server
    asking = start("ask", "never", "--url", running.url)
    trace_id = _wait_for(data, "running")
    asking.send_signal(signal.SIGINT)
    _, told = asking.communicate(timeout=WAIT_S)
    assert asking.returncode == 130
    assert f"trace show {trace_id}" in told
    assert _wait_for(data, "running") == trace_id
    invoke("trace", "cancel", trace_id, "--data-dir", data)


def test_the_doctor_sees_the_server(server: tuple[Serving, str]) -> None:
    """Lock and address are those of the running process."""
    running, data = server
    result = invoke("doctor", "--json", "--data-dir", data, "--url", running.url)
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert checks["lock"]["said"] == f"process {running.process.pid} drives runs here"
    assert f"{running.url} answers: ok" in checks["server"]["said"]


def test_a_second_server_on_the_directory_ends_with_1(server: tuple[Serving, str]) -> None:
    """It names the first one's pid, on whichever port it was to listen."""
    running, data = server
    for port in ("0", running.url.rsplit(":", 1)[1]):
        result = run("serve", "--data-dir", data, "--port", port)
        assert (result.returncode, result.stdout) == (1, "")
        assert f"data_dir_in_use: process {running.process.pid}" in result.stderr
        assert "Traceback" not in result.stderr


def test_a_taken_port_ends_with_1_and_makes_nothing(server: tuple[Serving, str], place: Path) -> None:
    """The message says what to do instead."""
    result = run("serve", "--port", server[0].url.rsplit(":", 1)[1])
    assert result.returncode == 1
    assert "port_in_use" in result.stderr
    assert "--port" in result.stderr
    assert not (place / "data").exists()


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_with_0(place: Path, sig: int) -> None:
    """Stopping it is no failure."""
    with serving(place / "data") as running:
        assert running.stop(sig) == 0


def test_ask_goes_on_when_the_server_is_killed_and_started_again(place: Path) -> None:
    """The run is taken over by the next process, and the same command prints its whole answer once."""
    settings, port = script(place / "s.json", *RULES), free_port()
    with serving(place / "data", port, **settings) as first:
        asking = start("ask", "slow", "--url", first.url)
        _wait_for(str(place / "data"), "running")
        time.sleep(0.5)
        first.process.kill()
        first.process.communicate(timeout=WAIT_S)
        with serving(place / "data", port, **settings):
            said, told = asking.communicate(timeout=WAIT_S)
    assert (asking.returncode, said) == (0, "".join(SLOW).strip() + "\n"), told
    assert "connection lost" in told


def test_a_server_that_stays_away_ends_with_3(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is not begun a second time here; it can be cancelled, which the next to drive the directory heeds."""
    monkeypatch.setattr(remote, "_PAUSES_S", (0.1, 0.1))
    with serving(place / "data", **script(place / "s.json", *RULES)) as running:
        threading.Timer(1.5, running.process.kill).start()
        result = invoke("ask", "never", "--url", running.url)
    assert result.exit_code == 3
    (row,) = lines(invoke("trace", "list", "--json", "--status", "running").stdout)
    assert f"trace show {row['trace_id']}" in result.stderr
    assert "asked; it ends when" in invoke("trace", "cancel", row["trace_id"]).stdout
    assert invoke("ask", "hi").exit_code == 0
    assert lines(invoke("trace", "list", "--json").stdout)[1]["status"] == "cancelled"


def test_a_policy_question_end_to_end(place: Path) -> None:
    """With no settings at all a fresh server quotes the clause."""
    with serving(place / "data") as running:
        result = run("ask", POLICY, "--url", running.url)
    assert result.returncode == 0
    assert "85%" in result.stdout
    assert "source 云泽省" in result.stderr


def test_a_closed_pipe_is_no_traceback() -> None:
    """``trace list | head`` ends quietly."""
    invoke("ask", "hi")
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, "trace", "list"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, encoding="utf-8", timeout=WAIT_S, check=False)
    os.close(writer)
    assert done.stderr == ""
