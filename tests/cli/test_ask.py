"""``ask`` where no server listens: in this process, or not at all."""

from __future__ import annotations

import fcntl
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.kit import POLICY, invoke, lines, script


def test_without_a_server_it_answers_in_process_and_says_so(place: Path) -> None:
    """The answer alone stands on stdout; steps, route and source on stderr, and what ran is on record."""
    result = invoke("ask", POLICY)
    assert result.exit_code == 0
    assert "85%" in result.stdout
    assert "trace" not in result.stdout
    assert "answering in this process" in result.stderr
    assert "1. get_policy" in result.stderr
    assert "succeeded  policy (extractive:extractive)  route agent:" in result.stderr
    assert "source 云泽省" in result.stderr
    assert len(list((place / "data" / "graphs").glob("*.mmd"))) == 1
    assert lines(invoke("log", "query", "--kind", "run_finished", "--json").stdout)


def test_json_is_one_answer_object_and_nothing_else() -> None:
    """Programs may read stdout whole."""
    result = invoke("ask", POLICY, "--json")
    answer = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert answer["status"] == "succeeded"
    assert answer["output"]["source"]["clause"] == "第七条"
    assert "get_policy" not in result.stderr


def test_a_conversation_goes_on_and_an_agent_can_be_named() -> None:
    """The options reach the run."""
    first = json.loads(invoke("ask", "你好", "--conversation", "c-1", "--agent", "policy", "--json").stdout)
    second = json.loads(invoke("ask", POLICY, "--conversation", "c-1", "--tools", "", "--json").stdout)
    assert first["meta"]["agent_name"] == "policy"
    assert second["conversation_id"] == "c-1"
    assert second["usage"]["tool_calls"] == 0


def test_text_comes_from_stdin_for_a_dash() -> None:
    """Long questions need no quoting."""
    assert "85%" in invoke("ask", "-", stdin=POLICY).stdout


@pytest.mark.parametrize(
    "args",
    [
        ("",),
        ("x" * 32_001,),
        ("\udcff",),
        ("hi", "--agent", "nosuch"),
        ("hi", "--tools", "nosuch"),
        ("hi", "--conversation", "no spaces"),
        ("hi", "--url", "ftp://x"),
        (),
    ],
)
def test_wrong_use_ends_with_2_and_leaves_stdout_empty(args: tuple[str, ...]) -> None:
    """Whatever is asked wrongly is a usage error, found here or by the service."""
    result = invoke("ask", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


def test_an_address_where_nothing_listens_ends_with_3(place: Path) -> None:
    """Who names a server wants that server: nothing runs here, and nothing is made."""
    result = invoke("ask", "hi", "--url", "http://127.0.0.1:9")
    assert result.exit_code == 3
    assert "nothing listens at http://127.0.0.1:9" in result.stderr
    assert not (place / "data").exists()


def test_another_service_at_the_address_ends_with_3(place: Path) -> None:
    """A web page is no answer."""
    with _stranger() as url:
        result = invoke("ask", "hi", "--url", url)
    assert result.exit_code == 3
    assert "no DevAssist" in result.stderr


def test_a_failed_run_ends_with_1(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is named on stderr, or stands in the object."""
    error = {"detail": "out of order", "code": "provider_error"}
    for name, value in script(place / "s.json", {"replies": [{"error": error}]}).items():
        monkeypatch.setenv(name, value)
    result = invoke("ask", "hi")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "failed: provider_error" in result.stderr
    result = invoke("ask", "hi", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "provider_error"


def test_a_directory_that_another_process_drives_is_left_alone(place: Path) -> None:
    """The message names its pid and the way to reach it."""
    (place / "data").mkdir()
    with (place / "data" / "lock").open("w+") as held:
        held.write("4711\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        result = invoke("ask", "hi")
    assert result.exit_code == 1
    assert "data_dir_in_use: process 4711" in result.stderr
    assert "--url" in result.stderr


class _Page(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>Router</h1>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def _stranger() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
