"""Knowledge assets: what a file must be, what holds on a day, and the packaged samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import ConfigInvalid
from devassist.knowledge.assets import (
    AssetInvalid,
    canonical_text,
    content_hash,
    load_directory,
    load_file,
    parse_asset,
    text_hash,
)
from devassist.knowledge.policy_dir import SAMPLES_DIR
from scripts.make_samples import build
from tests import kb

CLAUSES = [("第一条", "为了测试。"), ("第二条", "押金不退。")]


def asset(**fields: Any) -> dict[str, Any]:
    return kb.make_asset("rules", "测试规则", CLAUSES, **fields)


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def refusal(value: Any) -> AssetInvalid:
    with pytest.raises(AssetInvalid) as caught:
        parse_asset(value, "rules.json")
    return caught.value


def test_the_packaged_schema_is_the_shared_contract() -> None:
    """The schema in the package says what the shared one says."""
    kb.need_bundle()
    packaged = SAMPLES_DIR.with_name("knowledge_asset.schema.json")
    shared = kb.KB / "schema" / "knowledge_asset.schema.json"
    assert json.loads(packaged.read_bytes()) == json.loads(shared.read_bytes())


def test_the_shared_examples_load_with_their_dates() -> None:
    """Two real revisions of one regulation load, their hashes are right, and each holds on its own days."""
    kb.need_bundle()
    old, new = (load_file(path) for path in sorted((kb.KB / "schema" / "examples").glob("holiday*.json")))
    assert (old.effective_date, old.revision_date) == ("2014-01-01", "2007-12-14"), "the file lacks its own last line"
    assert (new.effective_date, new.revision_date) == ("2025-01-01", "2024-11-10")
    assert [(old.holds_on(day), new.holds_on(day)) for day in ("2013-12-31", "2024-12-31", "2025-01-01")] == [
        (False, False),
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize("action", ["adopted", "imported", "repealed"])
def test_what_was_never_amended_has_no_revision_date(action: str) -> None:
    """A date of adoption or import must not read as one of an amendment."""
    made = asset(revisions=[{"date": "2021-05-01", "by": "x", "action": action}])
    assert parse_asset(made, "rules.json").revision_date is None


def test_an_asset_is_read_with_what_citations_need() -> None:
    """Ids, labels, texts, article numbers, source and both dates are taken over as they stand."""
    made = asset(
        revisions=[{"date": d, "by": "x", "action": "amended"} for d in ("2021-05-01", "2022-02-02", "2019-01-01")]
    )
    read = parse_asset(made, "rules.json")
    assert [(c.clause_id, c.label, c.text, c.article, c.sub) for c in read.clauses] == [
        ("rules@2020-01-01#art-1", "第一条", "为了测试。", 1, 0),
        ("rules@2020-01-01#art-2", "第二条", "押金不退。", 2, 0),
    ]
    assert (read.revision_date, read.source) == ("2022-02-02", "https://example.org/rules")
    assert read.effective_date == "2020-01-01", "valid_from stands in for an effective date that is not known"


def _set(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(made: dict[str, Any]) -> None:
        *steps, last = [int(s) if s.isdecimal() else s for s in path.split("/")]
        at: Any = made
        for step in steps:
            at = at[step]
        if value is KeyError:
            del at[last]
        else:
            at[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "pointer", "says"),
    [
        (_set("title", KeyError), "", "'title' is a required property"),
        (_set("valid_from", "2020-02-30"), "/valid_from", "date"),
        (_set("recorded_from", "yesterday"), "/recorded_from", "date-time"),
        (_set("source/url", "no address"), "/source/url", "uri"),
        (_set("clauses/1/kind", "verse"), "/clauses/1/kind", "verse"),
        (_set("extra_key", 1), "", "extra_key"),
        (_set("clauses/1/text", "押金可退。"), "/clauses/1/text_sha256", text_hash("押金可退。")),
        (_set("clauses/0/label", "第九条"), "/content_sha256", "does not fit"),
        (_set("clauses/1/clause_id", "rules@2020-01-01#art-1"), "/clauses/1/clause_id", "stands twice"),
        (_set("clauses/1/clause_id", "other@2020-01-01#art-2"), "/clauses/1/clause_id", "must begin with"),
        (_set("rev_id", "other@2020-01-01"), "/rev_id", "doc_id@valid_from"),
        (_set("valid_to", "2020-01-01"), "/valid_to", "later than valid_from"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_place(
    change: Callable[[dict[str, Any]], None], pointer: str, says: str
) -> None:
    """Schema, dates, hashes and ids: each fault names the file, the JSON Pointer and what would be right."""
    made = asset()
    change(made)
    error = refusal(made)
    assert error.code == "asset_invalid"
    assert error.detail.startswith("rules.json: ")
    assert pointer in dict(error.errors)
    assert says in error.detail


@pytest.mark.parametrize("text", ["a \nb", "a\r\nb", "a\n ", "e\u0301", "全角\u3000\n空白"])
def test_a_text_that_is_not_canonical_is_refused(text: str) -> None:
    """Citations count code points, so NFC, LF and no trailing space are required; canonical_text makes them."""
    made = asset()
    for version, wrong in ((text, True), (canonical_text(text), False)):
        made["clauses"][0] |= {"text": version, "text_sha256": text_hash(version)}
        made["content_sha256"] = content_hash(made["clauses"])
        if wrong:
            assert dict(refusal(made).errors)["/clauses/0/text"].startswith("is not canonical")
        else:
            parse_asset(made, "rules.json")


@pytest.mark.parametrize("content", ["", "{", "[]", "\ufeff{}", '{"a": NaN}', "null"])
def test_a_file_that_is_no_asset_is_an_error_naming_it(tmp_path: Path, content: str) -> None:
    """Broken JSON, another JSON value or a byte-order mark end as AssetInvalid with the file's path."""
    path = write(tmp_path / "broken.json", content)
    with pytest.raises(AssetInvalid, match=r"broken\.json"):
        load_file(path)


@pytest.mark.parametrize("name", ["missing", "empty", "file.json"])
def test_a_directory_without_files_is_a_wrong_setting(tmp_path: Path, name: str) -> None:
    """A missing or empty directory, or a file in its place, is ConfigInvalid and not an empty library."""
    (tmp_path / "empty").mkdir()
    write(tmp_path / "file.json", asset())
    with pytest.raises(ConfigInvalid, match=name):
        load_directory(tmp_path / name)


def test_a_directory_is_read_with_its_subdirectories_in_order(tmp_path: Path) -> None:
    """Every *.json below the directory is loaded, in order of path, and nothing else."""
    (tmp_path / "b").mkdir()
    write(tmp_path / "b" / "1.json", kb.make_asset("second", "二", CLAUSES))
    write(tmp_path / "a.json", asset())
    write(tmp_path / "README.md", "no asset")
    assert [found.doc_id for found in load_directory(tmp_path)] == ["rules", "second"]


def test_two_revisions_of_one_day_are_refused_naming_both_files(tmp_path: Path) -> None:
    """Published revisions of one document may touch but not overlap; drafts and corrected ones do not count."""
    write(tmp_path / "1.json", asset(valid_to="2021-01-01"))
    write(tmp_path / "2.json", asset(valid_from="2021-01-01"))
    write(tmp_path / "3.json", asset(valid_from="2020-06-01", status="draft"))
    write(tmp_path / "4.json", asset(valid_from="2020-07-01", recorded_to="2026-02-01T00:00:00Z"))
    assert [a.holds_on("2020-07-02") for a in load_directory(tmp_path)] == [True, False, False, False]
    write(tmp_path / "5.json", asset(valid_from="2020-12-31", valid_to="2021-01-01"))
    with pytest.raises(AssetInvalid, match=r"5\.json.*1\.json"):
        load_directory(tmp_path)
    write(tmp_path / "5.json", asset(valid_from="2021-01-01"))
    with pytest.raises(AssetInvalid, match=r"5\.json.*2\.json"):
        load_directory(tmp_path)


@pytest.mark.parametrize("status", ["draft", "repealed", "withdrawn"])
def test_only_published_revisions_hold(status: str) -> None:
    """A revision of another status holds on no day."""
    assert not parse_asset(asset(status=status), "x").holds_on("2020-06-01")
    assert parse_asset(asset(), "x").holds_on("2020-06-01")


def test_the_packaged_samples_are_what_the_generator_writes() -> None:
    """samples/*.json equals the output of scripts/make_samples.py, file for file."""
    present = {path.name: path.read_text(encoding="utf-8") for path in SAMPLES_DIR.iterdir()}
    assert present == build()


def test_the_samples_are_marked_and_varied() -> None:
    """Six invented policies of 8-15 clauses, one with two adjoining revisions, all marked as samples."""
    files = [json.loads(text) for text in build().values()]
    assert len({f["doc_id"] for f in files}) == 6
    assert all(f["extra"]["sample"] and "（示例）" in f["title"] and f["kind"] == "policy" for f in files)
    assert all(8 <= len(f["clauses"]) <= 15 for f in files)
    old, new = (f for f in files if f["doc_id"] == "yunze-outpatient-chronic")
    assert old["valid_to"] == new["valid_from"]
    assert [c["lineage_id"] for c in old["clauses"]] == [c["lineage_id"] for c in new["clauses"]]
