"""``keys``: made once, listed without the secret, revoked; on a fresh directory and beside a running server."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

import pytest
from click.testing import Result

from tests.cli.kit import invoke, lines, serving

KEY = re.compile(r"dak_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")
DAY_MS = 24 * 3600 * 1000
SOON_S = 5.0
"""A server heeds a change within a second; the rest is for a busy machine."""


def made(*args: str) -> str:
    result = invoke("keys", "create", *args)
    assert result.exit_code == 0
    return result.stdout.strip()


def test_a_key_is_printed_once_and_alone(place: Path) -> None:
    """On stdout there is the key and nothing else, so a shell can keep it; the first one says what it changes."""
    result = invoke("keys", "create", "alice", "--role", "admin", "--label", "报销 laptop")
    assert KEY.fullmatch(result.stdout.removesuffix("\n"))
    assert "this once only" in result.stderr
    assert "it is the first" in result.stderr
    assert result.stdout.strip() not in result.stderr
    second = invoke("keys", "create", "bob")
    assert "it is the first" not in second.stderr
    shown = invoke("keys", "list").stdout + invoke("keys", "list", "--json").stdout
    for token in (result.stdout.strip(), second.stdout.strip()):
        assert token not in shown
        assert token[17:] not in shown
        assert token[4:16] in shown
    assert stat.S_IMODE((place / "data.keys").stat().st_mode) == 0o700
    assert (place / "data" / "journal.db").exists()


def test_json_for_programs() -> None:
    """Create gives one object with the key in it, list one object a line without."""
    created = json.loads(invoke("keys", "create", "alice", "--expires", "30d", "--label", "ci", "--json").stdout)
    forever = json.loads(invoke("keys", "create", "bob", "--role", "admin", "--expires", "never", "--json").stdout)
    assert KEY.fullmatch(created.pop("key"))
    assert KEY.fullmatch(forever.pop("key"))
    assert lines(invoke("keys", "list", "--json").stdout) == [created, forever]
    assert (created["user"], created["role"], created["state"], created["label"]) == ("alice", "user", "active", "ci")
    assert created["revoked_at_ms"] is None
    assert abs(created["expires_at_ms"] - created["created_at_ms"] - 30 * DAY_MS) < 60_000
    assert (forever["role"], forever["expires_at_ms"]) == ("admin", None)


def test_a_key_lasts_ninety_days_unless_told_otherwise() -> None:
    """Nothing is good for ever by accident."""
    made("alice")
    (row,) = lines(invoke("keys", "list", "--json").stdout)
    assert abs(row["expires_at_ms"] - time() * 1000 - 90 * DAY_MS) < 60_000


@pytest.mark.parametrize("form", ["{id}", "dak_{id}", "{key}"])
def test_revoking_takes_the_id_or_the_key(form: str) -> None:
    """Whoever finds a leaked key can revoke it by what was found; the row stays, and doing it again changes nothing."""
    key = made("alice")
    given = form.format(id=key[4:16], key=key)
    first = invoke("keys", "revoke", given)
    assert (first.exit_code, first.stdout) == (0, f"key {key[4:16]} is revoked\n")
    assert "was revoked before" in invoke("keys", "revoke", given).stdout
    (row,) = lines(invoke("keys", "list", "--json").stdout)
    assert (row["state"], row["key_id"]) == ("revoked", key[4:16])
    assert row["revoked_at_ms"] >= row["created_at_ms"]


@pytest.mark.parametrize(
    "args",
    [
        ("create", "no spaces"),
        ("create", ""),
        ("create", "x" * 65),
        ("create", "@127.0.0.1"),
        ("create", "alice", "--role", "root"),
        ("create", "alice", "--expires", "soon"),
        ("create", "alice", "--expires", "0d"),
        ("create", "alice", "--expires", "-1d"),
        ("create", "alice", "--label", "two\nlines"),
        ("revoke", "nosuch"),
        ("revoke", "0" * 12),
        ("revoke",),
    ],
)
def test_wrong_use_ends_with_2(args: tuple[str, ...]) -> None:
    """Names, roles, times and ids that are none; stdout stays empty."""
    made("someone")
    result = invoke("keys", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


def test_a_secret_that_was_mistyped_is_not_repeated() -> None:
    """What is no key id may be most of a key."""
    key = made("alice")
    result = invoke("keys", "revoke", key[5:])
    assert result.exit_code == 2
    assert key[17:] not in result.stderr


def test_where_nothing_was_made_there_is_nothing_to_list(place: Path) -> None:
    """Listing and revoking make no directory; an emptied key store is not made anew over a journal."""
    for args in (("list",), ("revoke", "0" * 12)):
        assert invoke("keys", *args).exit_code == 1
    assert list(place.iterdir()) == []
    invoke("ask", "hi")
    assert "no keys" in invoke("keys", "list").stderr
    (place / "data.keys").rename(place / "elsewhere")
    result = invoke("keys", "create", "alice")
    assert result.exit_code == 1
    assert "put it back" in result.stderr
    assert not (place / "data.keys").exists()


def _until(code: int, *args: str) -> Result:
    """Ask until the command ends with ``code``."""
    end = monotonic() + SOON_S
    while (result := invoke(*args)).exit_code != code:
        assert monotonic() < end, (result.stdout, result.stderr)
        sleep(0.1)
    return result


def _server_check(*args: str) -> dict[str, Any]:
    """What ``doctor`` says of the server."""
    checks = json.loads(invoke(*args, "doctor", "--json").stdout)["checks"]
    return next(row for row in checks if row["name"] == "server")


def test_beside_a_running_server(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key made beside it is asked for at once, taken from DEVASSIST_API_KEY, and refused once it is revoked."""
    with serving(place / "data") as server:
        asked = ("--url", server.url, "ask", "hi", "--json")
        assert invoke(*asked).exit_code == 0
        key = made("alice")
        refused = _until(2, *asked)
        assert "unauthorised" in refused.stderr
        assert "DEVASSIST_API_KEY" in refused.stderr
        check = _server_check("--url", server.url)
        assert (check["level"], "DEVASSIST_API_KEY" in check["todo"]) == ("fail", True)
        monkeypatch.setenv("DEVASSIST_API_KEY", key)
        assert json.loads(_until(0, *asked).stdout)["status"] == "succeeded"
        assert _server_check("--url", server.url)["level"] == "ok"
        listed = [row["user"] for row in lines(invoke("trace", "list", "--json").stdout)]
        assert set(listed) == {"alice", "local"}
        assert invoke("keys", "revoke", key).exit_code == 0
        _until(2, *asked)


def test_beyond_loopback_a_key_is_enough(place: Path) -> None:
    """Without one serving strangers is refused before anything is made, and after; with one it is allowed."""
    assert invoke("serve", "--host", "0.0.0.0", "--port", "0").exit_code == 2
    assert list(place.iterdir()) == []
    invoke("ask", "hi")
    refused = invoke("serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.exit_code == 2
    assert "devassist keys create" in refused.stderr
    made("alice")
    with serving(place / "data", DEVASSIST_HOST="0.0.0.0") as server:
        assert server.stop() == 0


def test_a_wrong_key_in_the_settings_ends_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said so, and not shown."""
    monkeypatch.setenv("DEVASSIST_API_KEY", "sk-something-secret")
    result = invoke("ask", "hi")
    assert result.exit_code == 2
    assert "DEVASSIST_API_KEY" in result.stderr
    assert "sk-something" not in result.stderr


def test_a_key_opens_labels() -> None:
    """They are listed with it, each once; a label that cannot be one is wrong use."""
    made = json.loads(
        invoke("keys", "create", "ann", "--sees", "hr", "--sees", "board", "--sees", "hr", "--json").stdout
    )
    assert made["sees"] == ["board", "hr"]
    (row,) = lines(invoke("keys", "list", "--json").stdout)
    assert row["sees"] == ["board", "hr"]
    assert invoke("keys", "create", "ann", "--sees", "two words").exit_code == 2
