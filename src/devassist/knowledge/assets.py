"""Knowledge assets: one JSON file is one revision of one document, checked before anybody can find a word of it.

A file fits the packaged JSON Schema, its hashes are right, its ids agree with one another and its texts are canonical,
or loading raises AssetInvalid and names the file and the place. Which revision holds on a day is decided here, by
half-open intervals of ISO dates; the day is always given, nothing here knows what day it is.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import orjson
from jsonschema import Draft202012Validator, FormatChecker, ValidationError

from devassist.core.codec import canonical
from devassist.core.errors import CallerError, ConfigInvalid

_MOST_FAULTS = 8  # named in one error
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TRAILING = re.compile(r"[^\S\n](?:\n|\Z)")


class AssetInvalid(CallerError):
    """A file is no valid asset; ``detail`` names it, ``errors`` holds (JSON Pointer, message) pairs."""

    code = "asset_invalid"
    title = "The file is not a valid knowledge asset"
    status = 422


AMENDING = frozenset({"amended", "revised", "corrected"})
"""Actions of a revision history that make a text another one; adoption, import and repeal do not."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause as stored; ``text`` is canonical and citations count code points in it."""

    clause_id: str
    label: str
    headings: tuple[str, ...]
    text: str
    article: int | None = None
    sub: int = 0


@dataclass(frozen=True, slots=True)
class Asset:
    """One revision of one document. It holds on ``valid_from`` and until the day before ``valid_to`` (None: open)."""

    doc_id: str
    rev_id: str
    title: str
    status: str
    valid_from: str
    valid_to: str | None
    believed: bool
    effective_date: str
    revision_date: str | None  # None: never amended since its adoption
    source: str
    clauses: tuple[Clause, ...]

    def holds_on(self, day: str) -> bool:
        """Whether this revision is published, not corrected since, and in force on the ISO date ``day``."""
        return (
            self.status == "published"
            and self.believed
            and self.valid_from <= day
            and (self.valid_to is None or day < self.valid_to)
        )


def is_date(text: str) -> bool:
    """Whether ``text`` is a day of the calendar written YYYY-MM-DD."""
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def text_hash(text: str) -> str:
    """``text_sha256`` of a clause."""
    return hashlib.sha256(text.encode()).hexdigest()


def content_hash(clauses: Iterable[dict[str, Any]]) -> str:
    """``content_sha256`` of an asset: over the canonical JSON of ``[[label, kind, text], …]``."""
    return hashlib.sha256(canonical([[c["label"], c["kind"], c["text"]] for c in clauses])).hexdigest()


def canonical_text(text: str) -> str:
    """The stored form of a text: NFC, LF, no space at the end of a line or of the text."""
    return unicodedata.normalize("NFC", "\n".join(line.rstrip() for line in text.splitlines())).rstrip()


def load_directory(directory: Path) -> tuple[Asset, ...]:
    """Every ``*.json`` below ``directory``, in order of path.

    Raises ConfigInvalid when there is none, AssetInvalid for a file that is wrong, a revision that two files hold, or
    two revisions of one document that would hold on the same day.
    """
    paths = sorted(directory.rglob("*.json")) if directory.is_dir() else []
    if not paths:
        raise ConfigInvalid(f"policy directory {directory}: no *.json file there; name one that holds knowledge assets")
    loaded = [(path, load_file(path)) for path in paths]
    _refuse_clashes(loaded)
    return tuple(asset for _, asset in loaded)


def load_file(path: Path) -> Asset:
    """Read and check one file. Raises AssetInvalid."""
    try:
        value = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _invalid(str(path), [("", f"cannot be read as UTF-8 JSON: {error}")]) from None
    return parse_asset(value, str(path))


def parse_asset(value: Any, name: str) -> Asset:
    """Check an asset read from JSON; ``name`` says in errors where it came from. Raises AssetInvalid."""
    faults = list(_schema_faults(value)) or list(_content_faults(value))
    if faults:
        raise _invalid(name, faults)
    return Asset(
        doc_id=value["doc_id"],
        rev_id=value["rev_id"],
        title=value["title"],
        status=value["status"],
        valid_from=value["valid_from"],
        valid_to=value["valid_to"],
        believed=value["recorded_to"] is None,
        effective_date=value.get("effective_date") or value["valid_from"],
        revision_date=max((e["date"] for e in value["revisions"] if e["action"] in AMENDING), default=None),
        source=value["source"]["url"],
        clauses=tuple(map(_clause, value["clauses"])),
    )


def _clause(value: dict[str, Any]) -> Clause:
    number: dict[str, Any] = value.get("number") or {}
    return Clause(
        clause_id=value["clause_id"],
        label=value["label"],
        headings=tuple(value.get("heading_path", ())),
        text=value["text"],
        article=number.get("article"),
        sub=number.get("sub") or 0,
    )


def _invalid(name: str, faults: Sequence[tuple[str, str]]) -> AssetInvalid:
    more = f" (and {len(faults) - _MOST_FAULTS} more)" if len(faults) > _MOST_FAULTS else ""
    shown = tuple(faults[:_MOST_FAULTS])
    return AssetInvalid(f"{name}: " + "; ".join(f"{p or '/'}: {m}" for p, m in shown) + more, errors=shown)


def _is_day(text: object) -> bool:
    return not isinstance(text, str) or is_date(text)


def _is_date_time(text: object) -> bool:
    try:
        return not isinstance(text, str) or datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_uri(text: object) -> bool:
    if not isinstance(text, str):
        return True
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) and bool(parts.netloc or parts.path)


def _formats() -> FormatChecker:
    checker = FormatChecker(())
    checker.checks("date")(_is_day)
    checker.checks("date-time")(_is_date_time)
    checker.checks("uri")(_is_uri)
    return checker


_SCHEMA: dict[str, Any] = orjson.loads(Path(__file__).with_name("knowledge_asset.schema.json").read_bytes())
_VALIDATOR: Any = Draft202012Validator(_SCHEMA, format_checker=_formats())


def _schema_faults(value: Any) -> Iterator[tuple[str, str]]:
    errors = cast("Iterator[ValidationError]", _VALIDATOR.iter_errors(value))
    for error in sorted(errors, key=lambda e: list(map(str, e.absolute_path))):
        pointer = "".join(f"/{step}" for step in error.absolute_path)
        yield pointer, error.message if len(error.message) < 200 else f"{error.message[:200]} …"


def _content_faults(asset: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What the schema cannot say: hashes, ids that contain one another, order of dates, canonical text."""
    if not asset["rev_id"].startswith(f"{asset['doc_id']}@{asset['valid_from']}"):
        yield "/rev_id", f"must begin with {asset['doc_id']}@{asset['valid_from']} (doc_id@valid_from)"
    if asset["valid_to"] is not None and asset["valid_to"] <= asset["valid_from"]:
        yield "/valid_to", "must be later than valid_from (it is the first day on which the revision no longer holds)"
    seen: set[str] = set()
    for index, clause in enumerate(asset["clauses"]):
        where, clause_id, text = f"/clauses/{index}", clause["clause_id"], clause["text"]
        if clause_id in seen:
            yield f"{where}/clause_id", f"{clause_id} stands twice"
        seen.add(clause_id)
        if not clause_id.startswith(f"{asset['rev_id']}#"):
            yield f"{where}/clause_id", f"must begin with {asset['rev_id']}#"
        if "\r" in text or _TRAILING.search(text) or not unicodedata.is_normalized("NFC", text):
            yield f"{where}/text", "is not canonical: NFC, LF line ends, no trailing spaces"
        if text_hash(text) != clause["text_sha256"]:
            yield f"{where}/text_sha256", f"is not the SHA-256 of the text, which is {text_hash(text)}"
    if content_hash(asset["clauses"]) != asset["content_sha256"]:
        yield "/content_sha256", f"does not fit the clauses, whose hash is {content_hash(asset['clauses'])}"


def _refuse_clashes(loaded: Sequence[tuple[Path, Asset]]) -> None:
    """Raise AssetInvalid when a revision stands twice or two published ones of a document share a day."""
    by_rev: dict[str, Path] = {}
    last: dict[str, tuple[Path, Asset]] = {}
    for path, asset in sorted(loaded, key=lambda item: (item[1].doc_id, item[1].valid_from)):
        if asset.rev_id in by_rev:
            raise _invalid(str(path), [("/rev_id", f"{asset.rev_id} stands in {by_rev[asset.rev_id]} too")])
        by_rev[asset.rev_id] = path
        if asset.status != "published" or not asset.believed:
            continue
        before = last.get(asset.doc_id)
        if before is not None and (before[1].valid_to is None or before[1].valid_to > asset.valid_from):
            said = before[1].valid_to or "open"
            fault = f"{asset.valid_from} lies within {before[1].rev_id} (valid_to {said}) of {before[0]}"
            raise _invalid(str(path), [("/valid_from", fault)])
        last[asset.doc_id] = (path, asset)
