"""``devassist backup`` and ``restore``: what they print, their exit codes, and what the other verbs say meanwhile."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from devassist.store.backup_files import digest
from devassist.store.database import connect
from devassist.store.lock import DirectoryLock
from tests.cli.kit import POLICY, invoke


@pytest.fixture
def asked(place: Path) -> Path:
    """A data directory in which something ran, and a backup ``b`` of it; then something more ran."""
    assert invoke("ask", "before").exit_code == 0
    assert invoke("backup", "b").exit_code == 0
    assert invoke("ask", "after").exit_code == 0
    return place


def position() -> dict[str, Any]:
    found = {check["name"]: check for check in json.loads(invoke("doctor", "--json").stdout)["checks"]}
    return found["position"]


def traces() -> list[str]:
    return [json.loads(line)["message"] for line in invoke("trace", "list", "--json").stdout.splitlines()]


def test_backup_says_what_it_is_and_what_it_is_not(place: Path) -> None:
    """Runs and time on stdout, the missing keys on stderr; as JSON the manifest's words."""
    invoke("ask", "hi")
    result = invoke("backup", "b")
    assert "b: 1 run (0 open), as of 20" in result.stdout
    assert f"back up {place / 'data.keys'} apart" in result.stderr
    made = json.loads(invoke("backup", "--json", "deep/er").stdout)
    assert (made["runs"], made["open_runs"], list(made["files"])) == (1, 0, ["journal.db", "knowledge.db"])
    assert (place / "deep" / "er" / "manifest.json").is_file()


def test_backup_of_nothing_and_into_something_is_refused(place: Path) -> None:
    """With a sentence and exit code 1; nothing is made or changed."""
    result = invoke("backup", "b")
    assert (result.exit_code, "no journal at" in result.stderr, list(place.iterdir())) == (1, True, [])
    invoke("ask", "hi")
    (place / "b").mkdir()
    (place / "b" / "mine").write_text("x")
    result = invoke("backup", "b")
    assert (result.exit_code, "not empty" in result.stderr) == (1, True)
    assert [path.name for path in (place / "b").iterdir()] == ["mine"]


@pytest.mark.parametrize(("inside", "called"), [("data/b", "data"), ("data", "data"), ("data.keys/deep/b", "key")])
def test_a_backup_within_what_it_backs_up_is_refused(place: Path, inside: str, called: str) -> None:
    """Also by way of a link: it would be lost with what it is a backup of. Nothing is made."""
    invoke("ask", "hi")
    (place / "link").symlink_to(place / "data")
    for target in (inside, inside.replace("data/", "link/")):
        before = sorted(place.rglob("*"))
        result = invoke("backup", target)
        assert result.exit_code == 2
        assert f"lies in the {called} directory" in result.stderr
        assert "give a directory outside of it" in result.stderr
        assert [path for path in sorted(place.rglob("*")) if path not in before] == []


@pytest.mark.parametrize("source", ["nowhere", "b"])
def test_a_refused_restore_leaves_no_directory_behind(asked: Path, source: str) -> None:
    """Neither the data directory that was not there nor its parents: no backup at all, or one without its keys."""
    result = invoke("restore", source, "--data-dir", "new/er/data")
    assert result.exit_code in (1, 2)
    assert result.stderr.startswith("Error: ")
    assert not (asked / "new").exists()
    (asked / "new").mkdir()
    assert invoke("restore", source, "--data-dir", "new/er/data").exit_code == result.exit_code
    assert list((asked / "new").iterdir()) == []


def test_restore_needs_a_backup_or_the_word_to_go_on(place: Path) -> None:
    """Without either it is wrong use; going on where nothing is held says so and is no failure."""
    assert invoke("restore").exit_code == 2
    result = invoke("restore", "nowhere")
    assert (result.exit_code, "manifest.json" in result.stderr) == (2, True)
    invoke("ask", "hi")
    result = invoke("restore", "--resume")
    assert (result.exit_code, result.stdout) == (0, "nothing is held here\n")
    assert json.loads(invoke("restore", "--resume", "--json").stdout) == {"resumed": False, "runs": 0, "window": None}


def test_restore_reports_the_lost_window_and_holds(asked: Path) -> None:
    """The page names window, lost runs, report and what was there; doctor and ask say that it is held until resumed."""
    assert position()["level"] == "ok"
    result = invoke("restore", "b")
    assert result.exit_code == 0
    for part in ("restored ", "lost window: 20", "open runs: 0", "runs begun in the window: 1, gone with their "
                 "Idempotency-Keys", "restore-report.json", "what was there before: "):  # fmt: skip
        assert part in result.stdout, part
    assert "held" in result.stderr
    assert traces() == ["before"]
    assert position()["level"] == "fail"
    assert "restore --resume" in position()["said"]
    refused = invoke("ask", "now")
    assert (refused.exit_code, "held: the journal was restored" in refused.stderr) == (1, True)
    resumed = invoke("restore", "--resume")
    assert resumed.exit_code == 0
    assert "lost window: 20" in resumed.stdout
    assert invoke("ask", "now").exit_code == 0
    assert traces() == ["now", "before"]
    assert invoke("trace", "verify", "--all").exit_code == 0


def test_runs_are_told_by_their_status(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What became of open runs, and what was begun in the window, in the words of ``trace list``; the report keeps the
    names of the states."""
    texts = "{zh: 问, en: asks}"
    (place / "agents").mkdir()
    agent = f"name: clerk\ndescription: {texts}\nprompt: {texts}\ntools: [get_policy]\napproval: [get_policy]\n"
    (place / "agents" / "clerk.yaml").write_text(agent, "utf-8")
    monkeypatch.setenv("DEVASSIST_AGENTS_DIR", "agents")
    invoke("ask", POLICY, "--agent", "clerk")
    assert invoke("backup", "b").exit_code == 0
    invoke("ask", "after")
    page = invoke("restore", "b").stdout
    assert re.search(r"^  [0-9a-f]{32}  awaiting_approval, in the window awaiting_approval$", page, re.MULTILINE), page
    assert re.search(r"^  [0-9a-f]{32}  succeeded, begun 20", page, re.MULTILINE), page
    report = json.loads((place / "data" / "restore-report.json").read_text())
    assert report["open_runs"][0]["state"] == "AWAIT_APPROVAL"


def test_restore_and_resume_at_once(asked: Path) -> None:
    """``--json`` gives the report; the old journal is whole where it says."""
    report = json.loads(invoke("restore", "--resume", "--json", "b").stdout)
    assert (report["held"], report["lost_runs"]["count"], report["window"]["end_known"]) == (False, 1, True)
    assert report == json.loads((asked / "data" / "restore-report.json").read_text())
    assert position()["level"] == "ok"
    assert invoke("ask", "now").exit_code == 0
    shutil.copy(Path(report["replaced"]) / "journal.db", asked / "data" / "journal.db")
    assert traces() == ["after", "before"]
    assert position()["level"] == "fail"


def test_a_run_that_waits_says_that_it_was_restored(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is asked reads from ``trace show`` which time is missing; the fact is a line of ``log query``."""
    texts = "{zh: 问, en: asks}"
    (place / "agents").mkdir()
    agent = f"name: clerk\ndescription: {texts}\nprompt: {texts}\ntools: [get_policy]\napproval: [get_policy]\n"
    (place / "agents" / "clerk.yaml").write_text(agent, "utf-8")
    monkeypatch.setenv("DEVASSIST_AGENTS_DIR", "agents")
    assert invoke("ask", POLICY, "--agent", "clerk").exit_code == 1
    assert invoke("backup", "b").exit_code == 0
    assert invoke("restore", "--resume", "b").exit_code == 0
    (row,) = [json.loads(line) for line in invoke("trace", "list", "--json").stdout.splitlines()]
    page = invoke("trace", "show", row["trace_id"]).stdout
    assert re.search(
        r"^People\n  \S+ \S+  restored  the journal was put back: from 20\S+ \S+ to 20", page, re.MULTILINE
    )
    assert "Waits for     approval" in page
    assert re.search(r" fact .* restored how=restored ", invoke("log", "query", "--kind", "fact").stdout)


def test_restore_leaves_a_driven_directory_alone(asked: Path) -> None:
    """It names who drives it, and changes nothing."""
    lock = DirectoryLock(asked / "data")
    result = invoke("restore", "b")
    lock.release()
    assert (result.exit_code, "data_dir_in_use" in result.stderr) == (1, True)
    assert traces() == ["after", "before"]
    assert position()["level"] == "ok"


@pytest.mark.parametrize("what", ["hash", "record"])
def test_restore_checks_before_it_touches(asked: Path, what: str) -> None:
    """A file that is not the one that was made, or a record that does not verify under a hash that fits: all stays."""
    if what == "hash":
        with (asked / "b" / "journal.db").open("ab") as file:
            file.write(b"x")
    else:
        _forge(asked / "b")
    result = invoke("restore", "b")
    assert (result.exit_code, "journal_corrupt" in result.stderr) == (1, True), result.stderr
    assert traces() == ["after", "before"]
    assert position()["level"] == "ok"
    assert not list((asked / "data").glob("re*"))


def _forge(backup: Path) -> None:
    """A run that its head calls open and its events do not, with a manifest to match."""
    db = connect(backup / "journal.db")
    db.execute("UPDATE heads SET state = 'INIT' WHERE kind = 'run'").fetchall()
    db.close()
    sha, size = digest(backup / "journal.db")
    found = json.loads((backup / "manifest.json").read_text())
    found["files"]["journal.db"] = {"sha256": sha, "bytes": size}
    (backup / "manifest.json").write_text(json.dumps(found))


def test_missing_keys_stop_a_restore_before_it_begins(asked: Path) -> None:
    """Texts that nobody could read are not put in the place of others; with the keys back it goes on."""
    (asked / "data.keys").rename(asked / "away")
    result = invoke("restore", "b")
    assert (result.exit_code, str(asked / "data.keys") in result.stderr) == (1, True)
    assert not (asked / "data.keys").exists()
    (asked / "away").rename(asked / "data.keys")
    assert traces() == ["after", "before"]
    assert invoke("restore", "b").exit_code == 0
