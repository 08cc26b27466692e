"""The command itself: help, global options, settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import invoke, run

VERBS = ("serve", "ask", "trace", "log", "doctor")


def test_help_names_the_verbs() -> None:
    """Every verb and every exit code stands on the first page; it starts as a module, too."""
    result = run("--help")
    assert result.returncode == 0
    for word in (*VERBS, "Exit codes"):
        assert word in result.stdout


def test_every_verb_has_help() -> None:
    """Each explains itself, the verbs below it included."""
    below = [("trace", verb) for verb in ("list", "show", "graph", "verify", "replay", "cancel")]
    for args in [*[(verb,) for verb in VERBS], *below, ("log", "query"), ("log", "rebuild")]:
        result = invoke(*args, "--help")
        assert result.exit_code == 0
        assert "--data-dir" in result.stdout


def test_version_is_that_of_the_package() -> None:
    """It can be named in a report."""
    assert invoke("--version").stdout.startswith("devassist, version ")


@pytest.mark.parametrize("args", [("nosuch",), ("trace", "nosuch"), ("ask", "hi", "--nosuch")])
def test_unknown_words_end_with_2(args: tuple[str, ...]) -> None:
    """Usage errors have their own exit code."""
    assert invoke(*args).exit_code == 2


def test_the_data_directory_can_be_named_before_or_after_the_verb(place: Path) -> None:
    """Both name the same one."""
    invoke("--data-dir", "here", "ask", "hi")
    assert (place / "here" / "journal.db").exists()
    assert "hi" in invoke("trace", "list", "--data-dir", "here").stdout


def test_a_setting_that_does_not_exist_ends_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest right name is suggested."""
    monkeypatch.setenv("DEVASSIST_DATADIR", "x")
    result = invoke("trace", "list")
    assert result.exit_code == 2
    assert "DEVASSIST_DATA_DIR" in result.stderr


def test_serving_strangers_is_refused() -> None:
    """Beyond loopback there must be something that keeps them out."""
    result = invoke("serve", "--host", "0.0.0.0")
    assert result.exit_code == 2
    assert "DEVASSIST_ALLOW_UNAUTHENTICATED" in result.stderr


@pytest.mark.parametrize("port", ["abc", "-1", "65536"])
def test_a_wrong_port_ends_with_2(port: str) -> None:
    """What is allowed is said."""
    result = invoke("serve", "--port", port)
    assert result.exit_code == 2
    assert "65535" in result.stderr
