"""What kind of file some bytes are: by their content first, and by the name only where the content is just text."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Literal

from devassist.knowledge.parsing.document import Limits, Refused

Type = Literal["markdown", "plain", "html", "pdf", "docx", "json"]
MEDIA_TYPES: dict[Type, str] = {
    "markdown": "text/markdown",
    "plain": "text/plain",
    "html": "text/html",
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "json": "application/json",
}
EXTENSIONS: dict[str, Type] = {
    "md": "markdown", "markdown": "markdown", "mdx": "markdown", "html": "html", "htm": "html", "xhtml": "html",
    "txt": "plain", "text": "plain", "pdf": "pdf", "docx": "docx", "json": "json",
}  # fmt: skip
SUPPORTED = "Markdown, plain text, HTML, PDF, DOCX or a knowledge asset as JSON"

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BINARY: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "a PNG image"), (b"\xff\xd8\xff", "a JPEG image"), (b"GIF8", "a GIF image"),
    (b"II*\0", "a TIFF image"), (b"MM\0*", "a TIFF image"), (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"), (b"Rar!", "a RAR archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"), (b"\xfd7zXZ\0", "an xz archive"), (b"BZh", "a bzip2 archive"),
    (b"\x7fELF", "a program"), (b"MZ\x90\0", "a program"), (b"{\\rtf", "an RTF document"),
    (b"SQLite format 3\0", "a database"),
    (b"%!PS", "a PostScript document"), (b"PAR1", "a Parquet file"),
)  # fmt: skip
_PACKAGES = (
    ("xl/workbook.xml", "an Excel workbook"), ("ppt/presentation.xml", "a PowerPoint presentation"),
    ("META-INF/container.xml", "an EPUB book"), ("content.xml", "an OpenDocument file"),
)  # fmt: skip
_HTML = re.compile(
    rb"^\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_XML = re.compile(rb"^\s*<\?xml\b")
_MARKS = re.compile(rb"^(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)")
_PDF_WITHIN = 1024  # readers look for the head of a PDF so far, since some begin with a banner
_SMALL_ENTRY = 1 << 20  # what is smaller unpacked is no bomb, however well it packs
_MOST_ENTRIES = 10_000


def type_of(data: bytes, name: str, limits: Limits) -> Type:
    """Raises Refused: ``empty``, ``unsupported_type``, ``encrypted``, ``zip_bomb``, ``malformed``."""
    if not data.strip(b" \t\r\n\0\xef\xbb\xbf\xff\xfe"):
        raise Refused("empty", "The file holds nothing.")
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    named = EXTENSIONS.get(extension)
    if b"%PDF-" in data[:_PDF_WITHIN]:
        return "pdf"
    if data.startswith(b"PK\x03\x04"):
        return _of_zip(data, limits)
    if data.startswith(_OLE):
        raise _of_ole(data)
    for magic, what in _BINARY:
        if data.startswith(magic):
            raise Refused("unsupported_type", f"This is {what}. What can be read is {SUPPORTED}.")
    if named in ("pdf", "docx") and not _HTML.match(data[:4096]):
        raise Refused("malformed", f"The name says {extension}, but the content is none. Export the document again.")
    return _of_text(data, named)


def _of_text(data: bytes, named: Type | None) -> Type:
    head = data[:4096]
    if _MARKS.match(head):  # UTF-16: the marks of markup are found without their zero bytes
        head = _MARKS.sub(b"", head).replace(b"\0", b"")
    if _HTML.match(head):
        return "html"
    if named is not None and named not in ("pdf", "docx"):
        return named
    if _XML.match(head):
        raise Refused("unsupported_type", f"This is XML of a kind that is not known. What can be read is {SUPPORTED}.")
    if head.lstrip()[:1] == b"{" and b'"schema_version"' in data:
        return "json"
    return "plain"


def _of_zip(data: bytes, limits: Limits) -> Type:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise Refused("malformed", f"The ZIP archive is damaged: {error}") from None
    _refuse_bombs(entries, len(data), limits)
    names = {entry.filename for entry in entries}
    if "[Content_Types].xml" in names and "word/document.xml" in names:
        return "docx"
    what = "a ZIP archive"
    for mark, kind in _PACKAGES:
        if mark in names:
            what = kind
    raise Refused("unsupported_type", f"This is {what}. What can be read is {SUPPORTED}.")


def _refuse_bombs(entries: list[zipfile.ZipInfo], size: int, limits: Limits) -> None:
    """By what the directory declares; ``zipfile`` never unpacks more of an entry than that."""
    if len(entries) > _MOST_ENTRIES:
        raise Refused("zip_bomb", f"The archive holds {len(entries)} entries; at most {_MOST_ENTRIES} are unpacked.")
    total = sum(entry.file_size for entry in entries)
    if total > limits.unpacked_bytes:
        raise Refused("zip_bomb", f"The archive would unpack to {total} bytes; at most {limits.unpacked_bytes} are.")
    for entry in entries:
        if entry.file_size > _SMALL_ENTRY and entry.file_size > limits.unpacked_ratio * max(entry.compress_size, 1):
            ratio = entry.file_size // max(entry.compress_size, 1)
            raise Refused(
                "zip_bomb",
                f"{entry.filename!r} unpacks to {ratio} times its size; at most {limits.unpacked_ratio} is taken.",
            )
    if any(entry.flag_bits & 1 for entry in entries):
        raise Refused("encrypted", "The archive is encrypted. Save the document without a password.")
    if total > _SMALL_ENTRY and total > limits.unpacked_ratio * size:
        raise Refused("zip_bomb", f"{size} bytes would unpack to {total}; entries overlap.")


def _of_ole(data: bytes) -> Refused:
    if "EncryptedPackage".encode("utf-16-le") in data:
        return Refused("encrypted", "The document is encrypted. Save it without a password.")
    return Refused(
        "unsupported_type",
        f"This is a document of an old Office format. Save it as DOCX or PDF; what can be read is {SUPPORTED}.",
    )
