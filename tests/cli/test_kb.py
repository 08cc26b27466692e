"""``devassist kb``: documents in and out on the command line, in both languages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from devassist.cli.output import width
from tests.cli.kit import invoke, lines, run, serving

LEAVE = """# 员工请假办法

（2025年12月1日云泽公司公布，自2026年1月1日起施行）

第一条 为了规范请假，制定本办法。

第二条 年休假每年十天。

第三条 病假须附证明。
"""
AMENDED = LEAVE.replace("2025年12月", "2026年5月").replace("2026年1月", "2026年6月").replace("十天", "十五天")
RETRIES = "# Retry policy\n\n## Back-off\n\nCalls are retried three times.\n\n## Limits\n\nNo more than 20 s in all.\n"


@pytest.fixture
def files(place: Path) -> Path:
    """A directory with a Chinese name in it, an English one, hidden ones, and a file that cannot be read."""
    root = place / "文件"
    (root / "规章").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "规章" / "请假办法.md").write_text(LEAVE, "utf-8")
    (root / "retry.md").write_text(RETRIES, "utf-8")
    (root / ".hidden.md").write_text(RETRIES, "utf-8")
    (root / ".git" / "config.md").write_text(RETRIES, "utf-8")
    (root / "noise.bin").write_bytes(b"\x00\x01\x02" * 500)
    return root


def ingested(*args: str) -> list[dict[str, Any]]:
    return lines(invoke("kb", "ingest", "--json", *args).stdout)


def listed(*args: str) -> dict[str, dict[str, Any]]:
    rows = lines(invoke("kb", "list", "--collection", "docs", "--json", *args).stdout)
    return {row["doc_id"]: row for row in rows}


def test_a_directory_comes_in_whole(files: Path) -> None:
    """In the order of names, hidden ones passed over, names as paths below it; 1 for what is in quarantine."""
    result = invoke("kb", "ingest", "--json", str(files))
    assert result.exit_code == 1
    done = lines(result.stdout)
    assert [(one["name"], one["outcome"]) for one in done] == [
        ("noise.bin", "quarantined"), ("retry.md", "added"), ("规章/请假办法.md", "added"),
    ]  # fmt: skip
    again = invoke("kb", "ingest", "--json", str(files))
    assert [one["outcome"] for one in lines(again.stdout)] == ["quarantined", "unchanged", "unchanged"]
    (refused,) = lines(invoke("kb", "quarantine", "--json").stdout)
    assert (refused["name"], refused["code"]) == ("noise.bin", done[0]["code"])
    (files / "noise.bin").write_text("# Mended\n\nText.", "utf-8")
    assert invoke("kb", "ingest", str(files)).exit_code == 0
    assert invoke("kb", "quarantine", "--json").stdout == ""


def test_the_summary_tells_a_person(files: Path) -> None:
    """What was added, why a file was not, and the sums; progress is no part of stdout."""
    result = invoke("kb", "ingest", str(files))
    assert "规章/请假办法.md" in result.stdout
    assert "noise.bin  undecodable" in result.stdout
    assert result.stdout.rstrip().endswith("2 added, 1 quarantined")
    assert "3/3 files" in result.stderr


def test_a_day_of_effect_is_given_from_outside(place: Path) -> None:
    """``--effective`` for what the file does not say, and the basis is shown as such."""
    (place / "note.md").write_text("# 通知\n\n下列事项，请遵照执行。", "utf-8")
    (one,) = ingested("note.md", "--effective", "2026-03-01", "--doc-id", "note-1", "--title", "关于假期的通知")
    assert one["rev_id"] == "note-1@2026-03-01"
    shown = invoke("kb", "show", "note-1").stdout
    assert "holds from  2026-03-01 (given from outside)" in shown
    assert "关于假期的通知" in shown


@pytest.mark.parametrize(
    "args",
    [
        ("--effective", "2026-02-30", "a.md"),
        ("--collection", "No Such", "a.md"),
        ("--collection", "agent_memory", "a.md"),
        ("--label", "two words", "a.md"),
        ("--doc-id", "A@B", "a.md"),
        ("--doc-id", "both", "a.md", "b.md"),
        ("nothing-here",),
        ("empty",),
        ("x", "y"),
    ],
)
def test_wrong_use_is_refused_before_anything_is_taken_in(place: Path, args: tuple[str, ...]) -> None:
    """Exit code 2 and no data directory; two files of one name are wrong use too."""
    for name in ("a.md", "b.md", "x/same.md", "y/same.md"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(RETRIES, "utf-8")
    (place / "empty").mkdir()
    assert invoke("kb", "ingest", *args).exit_code == 2
    assert not (place / "data").exists()


def test_an_amendment_is_seen_from_every_side(place: Path) -> None:
    """Listed once with two revisions, shown as of a day, compared, and found as of a day."""
    (place / "请假办法.md").write_text(LEAVE, "utf-8")
    (first,) = ingested("请假办法.md", "--doc-id", "leave")
    (place / "请假办法.md").write_text(AMENDED, "utf-8")
    (second,) = ingested("请假办法.md", "--doc-id", "leave")
    assert (second["outcome"], second["changes"]) == ("amended", {"keep": 2, "modify": 1})
    assert listed()["leave"]["revisions"] == 2
    assert listed("--as-of", "2025-01-01")["leave"]["state"] == "not_yet"
    then = json.loads(invoke("kb", "show", "leave", "--as-of", "2026-03-01", "--json").stdout)
    assert then["revision"]["rev_id"] == first["rev_id"]
    compared = invoke("kb", "diff", first["rev_id"], second["rev_id"]).stdout
    assert "- 年休假每年十天。" in compared
    assert "+ 年休假每年十五天。" in compared
    assert compared.rstrip().endswith("2 keep, 1 modify")
    found = json.loads(invoke("kb", "search", "年休假", "--as-of", "2026-03-01", "--json").stdout)
    assert found["hits"][0]["text"] == "年休假每年十天。"
    clause = invoke("kb", "show", f"{first['rev_id']}#art-2").stdout
    assert f"changed since: {second['rev_id']}#art-2" in clause
    asset = json.loads(invoke("kb", "show", second["rev_id"], "--json").stdout)
    assert (asset["schema_version"], asset["supersedes"]) == (1, first["rev_id"])


def test_repeal_and_delete(place: Path) -> None:
    """A repealed document is found for days before; a deleted one never, and asking for it is wrong use."""
    (place / "a.md").write_text(LEAVE, "utf-8")
    ingested("a.md", "--doc-id", "leave")
    assert invoke("kb", "repeal", "leave", "2026-05-01").exit_code == 0
    assert listed()["leave"]["state"] == "ended"
    for day, hits in (("2026-04-30", True), ("2026-05-01", False)):
        found = json.loads(invoke("kb", "search", "年休假", "--as-of", day, "--json").stdout)
        assert bool(found["hits"]) == hits
    assert invoke("kb", "delete", "leave").exit_code == 0
    assert "leave" not in invoke("kb", "list", "--json").stdout
    result = invoke("kb", "delete", "leave")
    assert result.exit_code == 2
    assert "document_not_found" in result.stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("show", "no-such"), "document_not_found"),
        (("show", "no-such@2026-01-01"), "revision_not_found"),
        (("show", "no-such@2026-01-01#art-1"), "revision_not_found"),
        (("diff", "a@2026-01-01", "b@2026-01-01"), "revision_not_found"),
        (("list", "--collection", "nowhere"), "collection_not_found"),
        (("search", "x", "--collection", "nowhere"), "collection_not_found"),
        (("search", "？"), "blank_query"),
        (("reindex",), "embedder_unavailable"),
    ],
)
def test_errors_are_typed(files: Path, args: tuple[str, ...], code: str) -> None:
    """A code on stderr, nothing on stdout, and an exit code that says whether it was wrong use."""
    invoke("kb", "ingest", str(files))
    result = invoke("kb", *args)
    assert result.exit_code == (1 if code == "embedder_unavailable" else 2)
    assert code in result.stderr
    assert result.stdout == ""


def test_tables_keep_their_columns_with_wide_characters(files: Path) -> None:
    """Every column begins at the same place in each row, whatever the script."""
    invoke("kb", "ingest", str(files))
    head, *rows = invoke("kb", "list", "--collection", "docs").stdout.splitlines()
    place = width(head[: head.index("TITLE")])
    for title in ("员工请假办法", "Retry policy"):
        row = next(row for row in rows if title in row)
        assert width(row[: row.index(title)]) == place
    found = invoke("kb", "search", "年休假几天").stdout
    assert "1. 员工请假办法 > 第二条" in found
    assert "lexical #1" in found


def test_an_export_comes_in_again(files: Path, place: Path) -> None:
    """One object a line; each, saved as a file, is the same document elsewhere."""
    invoke("kb", "ingest", str(files))
    before = listed()
    result = invoke("kb", "export", "--collection", "docs", "--output", str(place / "out.jsonl"))
    assert (result.exit_code, result.stdout) == (0, "")
    (place / "again").mkdir()
    for number, line in enumerate((place / "out.jsonl").read_text("utf-8").splitlines()):
        (place / "again" / f"{number}.json").write_text(line, "utf-8")
    args = ("--data-dir", str(place / "other"), "kb")
    assert invoke(*args, "ingest", str(place / "again")).exit_code == 0
    rows = lines(invoke(*args, "list", "--collection", "docs", "--json").stdout)
    assert {row["doc_id"]: row for row in rows} == before


def test_answers_that_relied_on_a_document(files: Path, place: Path) -> None:
    """``affected`` names the run that cited it, by document and by revision; ``rerun`` shows it beside today, equal
    until something changes, and then with the cause."""
    done = {one["name"]: one for one in ingested(str(files))}
    one = done["规章/请假办法.md"]
    asked = json.loads(invoke("ask", "--agent", "rag", "--json", "年休假每年几天？").stdout)
    invoke("ask", "--agent", "rag", "How often are calls retried?")
    for option, name in (("--doc", one["doc_id"]), ("--rev", one["rev_id"])):
        rows = lines(invoke("kb", "affected", option, name, "--json").stdout)
        assert {row["trace_id"] for row in rows} == {asked["trace_id"]}
        assert (rows[0]["used"], rows[0]["clause_id"], rows[0]["agent"]) == ("cited", f"{one['rev_id']}#art-2", "rag")
    assert invoke("kb", "affected", "--doc", "no-such", "--json").stdout == ""
    assert invoke("kb", "affected").exit_code == 2
    assert json.loads(invoke("log", "rebuild").stdout.split()[0]) > 0
    assert lines(invoke("kb", "affected", "--doc", one["doc_id"], "--json").stdout) == rows

    def again() -> dict[str, Any]:
        result = invoke("kb", "rerun", "--trace", asked["trace_id"], "--json")
        assert result.exit_code == 0
        (value,) = lines(result.stdout)
        return value

    same = again()
    assert (same["differs"], same["eligibility"]["equal"]) == (False, True)
    (files / "规章" / "请假办法.md").write_text(AMENDED, "utf-8")
    ingested(str(files))
    changed = again()
    assert changed["sides"][0]["cause"] == "new_revision"
    assert changed["eligibility"]["equal"]
    text = invoke("kb", "rerun", "--trace", asked["trace_id"]).stdout
    assert "new_revision" in text
    invoke("kb", "delete", one["doc_id"])
    gone = again()
    assert (gone["sides"][0]["cause"], gone["sides"][0]["now"]) == ("deleted", None)
    assert gone["eligibility"]["equal"]


def test_a_run_without_a_search_has_nothing_to_repeat(place: Path) -> None:
    """Exit code 1, and it says so."""
    asked = json.loads(invoke("ask", "--json", "你好").stdout)
    result = invoke("kb", "rerun", "--trace", asked["trace_id"])
    assert result.exit_code == 1
    assert "no_search" in result.stderr


def test_beside_a_running_server(files: Path, place: Path) -> None:
    """What the command takes in, the server answers from at once; what it deletes, the server finds no more."""
    with serving(place / "data", DEVASSIST_EMBEDDER="none") as server:
        there = ("--data-dir", str(place / "data"))
        assert run(*there, "kb", "ingest", str(files / "规章")).returncode == 0
        ask = (*there, "--url", server.url, "ask", "--agent", "rag", "--json", "年休假每年几天？")
        answer = json.loads(run(*ask).stdout)
        assert "年休假每年十天" in answer["answer"]
        (row,) = lines(run(*there, "kb", "list", "--collection", "docs", "--json").stdout)
        assert run(*there, "kb", "delete", row["doc_id"]).returncode == 0
        answer = json.loads(run(*ask).stdout)
        assert "十天" not in answer["answer"]
        affected = lines(run(*there, "kb", "affected", "--doc", row["doc_id"], "--json").stdout)
        assert len({each["trace_id"] for each in affected}) == 1
