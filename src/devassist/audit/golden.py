"""Golden journals: one run as a text file, so that yesterday's runs are replayed by today's core.

JSON lines: a header, one line an event (its body as the very text that was hashed), one line a payload in the clear.
Such a file is recorded once and never edited. ``load`` checks what can be checked without keys: every link of the
chain, and the commitment of every public text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from devassist.audit.record import Recorded, init_of, placed
from devassist.audit.replay import rederive
from devassist.core.chain import PUBLIC_DOMAIN, PUBLIC_SALT, ZERO_HASH, commit, link
from devassist.core.codec import b64, unb64
from devassist.core.errors import JournalCorrupt
from devassist.core.event_codec import decode, refs
from devassist.core.scope import Scope
from devassist.ports.audit import ReplayReport
from devassist.ports.journal import Inspector, Journal, Record
from devassist.ports.tools import ArgumentChecker

FORMAT = 1
_line = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class GoldenText(NamedTuple):
    """A payload in the clear: ``domain`` (hex) says whose it is."""

    domain: str
    text: str


def dump(records: Sequence[Record], texts: Mapping[str, GoldenText], note: str = "") -> str:
    """The file's text. ``records`` are those of one stream, from seq 0."""
    header = {"golden": FORMAT, "stream": records[0].stream.hex(), "note": note}
    events = [
        {"seq": r.seq, "at": r.at, "kind": r.kind, "body": r.body.decode(), "hash": r.hash.hex()} for r in records
    ]
    payloads = [{"ref": ref, "domain": t.domain, "text": t.text} for ref, t in texts.items()]
    return "".join(f"{_line(item)}\n" for item in (header, *events, *payloads))


def load(text: str) -> tuple[list[Record], dict[str, GoldenText]]:
    """Raises JournalCorrupt naming the line that is wrong."""
    lines = text.removesuffix("\n").split("\n")  # splitlines() would also cut at U+2028 and U+0085
    header = _parsed(lines, 0)
    if header.get("golden") != FORMAT:
        raise JournalCorrupt(f"line 1: no golden journal of format {FORMAT}")
    records: list[Record] = []
    texts: dict[str, GoldenText] = {}
    prev = ZERO_HASH
    for number in range(1, len(lines)):
        item = _parsed(lines, number)
        try:
            if "ref" in item:
                texts[item["ref"]] = _text(item)
                continue
            record = _record(bytes.fromhex(header["stream"]), item)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise JournalCorrupt(f"line {number + 1}: {type(error).__name__}: {error}") from None
        if record.seq != len(records) or link(record.stream, record.seq, record.at, prev, record.body) != record.hash:
            raise JournalCorrupt(f"line {number + 1}: event {record.seq} is not linked to the event before it")
        records.append(record)
        prev = record.hash
    return records, texts


def replay_golden(text: str, checker: ArgumentChecker) -> ReplayReport:
    """Replay the run in the file. Raises JournalCorrupt where the file itself is damaged."""
    records, texts = load(text)
    events = placed(records)
    started = init_of(events)
    if started is None:
        raise JournalCorrupt("line 2: a run begins with run_started")
    return rederive(Recorded(records[0].stream, started, events, {r: t.text for r, t in texts.items()}), checker)


async def export(journal: Journal, inspector: Inspector, scope: Scope, stream: bytes, note: str = "") -> str:
    """The run as a golden journal: every text that its events name, in the clear. Raises RunNotFound, PayloadErased."""
    records = await journal.read(scope, stream)
    named = list(dict.fromkeys(ref for r in records for ref in refs(decode(json.loads(r.body)))))
    texts = await journal.payloads(scope, stream, named)
    golden: dict[str, GoldenText] = {}
    for ref in named:
        payload = await inspector.raw_payload(scope, ref)
        domain = PUBLIC_DOMAIN if payload is None else payload.domain
        golden[ref] = GoldenText(domain.hex(), texts[ref])
    return dump(records, golden, note)


def _parsed(lines: Sequence[str], number: int) -> dict[str, Any]:
    try:
        item: Any = json.loads(lines[number])
    except (ValueError, IndexError) as error:
        raise JournalCorrupt(f"line {number + 1}: {error}") from None
    if not isinstance(item, dict):
        raise JournalCorrupt(f"line {number + 1}: no object")
    return item  # pyright: ignore[reportUnknownVariableType]


def _record(stream: bytes, item: dict[str, Any]) -> Record:
    seq, at, body = int(item["seq"]), int(item["at"]), str(item["body"]).encode()
    if seq < 0 or at < 0 or json.loads(body)["k"] != item["kind"]:
        raise ValueError("place or kind is wrong")
    return Record(stream, seq, at, item["kind"], body, bytes.fromhex(item["hash"]))


def _text(item: dict[str, Any]) -> GoldenText:
    golden = GoldenText(item["domain"], item["text"])
    if golden.domain == PUBLIC_DOMAIN.hex() and b64(commit(PUBLIC_SALT, golden.text.encode())) != item["ref"]:
        raise ValueError("the text does not fit its commitment")
    unb64(item["ref"])
    return golden
