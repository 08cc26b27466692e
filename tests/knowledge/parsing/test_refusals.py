"""What cannot or must not be read is refused with a reason, never taken in empty."""

from __future__ import annotations

import zlib

import orjson
import pytest

from devassist.knowledge.assets import content_hash, text_hash
from devassist.knowledge.parsing.document import Limits, ParsedDocument, Quarantine, from_wire, to_wire
from devassist.knowledge.parsing.parse import parse
from tests.knowledge.parsing import files

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
CONTENT_TYPES = (
    b'<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"></Types>'
)


def docx_with(name: str, content: bytes) -> bytes:
    return files.zipped({"[Content_Types].xml": CONTENT_TYPES, "word/document.xml": b"<x/>", name: content})


@pytest.mark.parametrize(
    ("data", "name", "code"),
    [
        (b"", "a.md", "empty"),
        (b" \n\t\r\n", "a.txt", "empty"),
        (b"\xef\xbb\xbf", "a.md", "empty"),
        (b"<html><body><nav>menu</nav><script>x</script></body></html>", "a.html", "empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "a.png", "unsupported_type"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "renamed.md", "unsupported_type"),
        (files.zipped({"xl/workbook.xml": b"<x/>"}), "a.xlsx", "unsupported_type"),
        (files.zipped({"a.txt": b"text"}), "a.zip", "unsupported_type"),
        (OLE, "a.doc", "unsupported_type"),
        (OLE + "EncryptedPackage".encode("utf-16-le"), "a.docx", "encrypted"),
        (b"<?xml version='1.0'?><feed/>", "a.xml", "unsupported_type"),
        (b"just text", "a.pdf", "malformed"),
        (b"PK\x03\x04 and nothing more", "a.docx", "malformed"),
        (docx_with("word/styles.xml", b"<x"), "a.docx", "malformed"),
        (b"{ not json", "a.json", "malformed"),
        (b'{"title": "no asset"}', "a.json", "asset_invalid"),
        (b"%PDF-1.4\n1 0 obj\n<</Encrypt 2 0 R>>\nendobj", "a.pdf", "malformed"),
    ],
)
def test_refused_by_name(data: bytes, name: str, code: str) -> None:
    """Each kind of file that is no document has its own code and a sentence that helps."""
    result = parse(data, name)
    assert isinstance(result, Quarantine)
    assert (result.code, len(result.detail) > 20) == (code, True)


def test_content_decides_before_the_name() -> None:
    """A page saved as .txt is a page, a PDF without an extension a PDF, a law named .bin a text."""
    assert isinstance(page := parse(b"<!DOCTYPE html><p>text of a page</p>", "a.txt"), ParsedDocument)
    assert page.media_type == "text/html"
    assert isinstance(paper := parse(files.typeset(["Some words."]), "paper"), ParsedDocument)
    assert paper.media_type == "application/pdf"
    assert isinstance(text := parse("第一条 甲。\n第二条 乙。".encode(), "law.bin"), ParsedDocument)
    assert (text.media_type, len(text.clauses)) == ("text/plain", 2)


def test_zip_bombs_are_not_unpacked() -> None:
    """A document that would unpack to more than is allowed, in all or by ratio, is refused by what it declares."""
    bomb = docx_with("word/media/zeros", bytes(30 << 20))
    assert len(bomb) < 1 << 20
    by_ratio = parse(bomb, "a.docx")
    in_all = parse(bomb, "a.docx", Limits(unpacked_bytes=20 << 20, unpacked_ratio=10**6))
    many = parse(files.zipped({f"e{n}": b"" for n in range(10_001)}), "a.docx")
    for result in (by_ratio, in_all, many):
        assert isinstance(result, Quarantine)
        assert result.code == "zip_bomb"


def test_a_file_over_the_limit_is_refused_by_its_size() -> None:
    """The limit is the caller's."""
    result = parse(b"x" * 1001, "a.txt", Limits(file_bytes=1000))
    assert isinstance(result, Quarantine)
    assert result.code == "too_large"
    packed = parse(files.law_docx(), "a.docx", Limits(text_chars=20))
    assert isinstance(packed, Quarantine)
    assert packed.code == "too_large"


def test_damaged_archives_are_refused() -> None:
    """A document cut short, or with bytes changed inside, is malformed and nothing worse."""
    whole = files.law_docx()
    for data in (whole[: len(whole) // 2], whole[:200] + zlib.compress(b"x") * 20 + whole[400:]):
        result = parse(data, "a.docx")
        assert isinstance(result, Quarantine)
        assert result.code == "malformed"


def asset() -> dict[str, object]:
    text = "须登记。"
    clauses: list[dict[str, object]] = [
        {
            "clause_id": "loans@2024-01-01#art-1", "lineage_id": "loans:1", "ordinal": 0, "kind": "article",
            "label": "第一条", "number": {"article": 1, "sub": None}, "heading_path": ["总则"], "text": text,
            "text_sha256": text_hash(text),
        }
    ]  # fmt: skip
    return {
        "schema_version": 1, "doc_id": "loans", "rev_id": "loans@2024-01-01", "title": "借用规则", "lang": "zh",
        "kind": "policy", "status": "published", "valid_from": "2024-01-01", "valid_to": None,
        "recorded_from": "2024-01-01T00:00:00Z", "recorded_to": None,
        "source": {"url": "file:///x", "retrieved_at": "2024-01-01T00:00:00Z", "media_type": "text/plain",
                   "raw_sha256": "0" * 64, "parser": "hand/1"},
        "clauses": clauses, "content_sha256": content_hash(clauses),
        "revisions": [{"date": "2024-01-01", "by": "行政部", "action": "adopted"}],
    }  # fmt: skip


def test_an_asset_is_checked_and_kept_as_it_is() -> None:
    """A knowledge asset passes the checker of assets and brings its own ids; a wrong hash is named."""
    value = asset()
    result = parse(orjson.dumps(value), "loans.json")
    assert isinstance(result, ParsedDocument)
    assert result.asset == value
    assert [(c.path, c.label, c.headings) for c in result.clauses] == [("art-1", "第一条", ("总则",))]
    wrong = parse(orjson.dumps({**value, "content_sha256": "0" * 64}), "loans.json")
    assert isinstance(wrong, Quarantine)
    assert wrong.code == "asset_invalid"
    assert "content_sha256" in wrong.detail


def test_results_survive_the_wire() -> None:
    """A document and a refusal are the same after they were JSON."""
    for result in (parse(files.law_docx(), "a.docx"), parse(b"", "a"), parse(orjson.dumps(asset()), "a.json")):
        assert from_wire(orjson.loads(orjson.dumps(to_wire(result)))) == result
