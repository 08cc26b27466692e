"""The golden file: what is dumped is loaded again, and a damaged file is refused at its line."""

from __future__ import annotations

import json

import pytest

from devassist.audit.golden import GoldenText, dump, export, load, replay_golden
from devassist.core.errors import JournalCorrupt
from devassist.ports.journal import Record
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from devassist.tools.schema import SchemaChecker
from tests.audit.hand_made import USER, HandMade, grounded

CHECKER = SchemaChecker()


async def exported() -> tuple[HandMade, str]:
    vault = MemoryVault()
    run = await grounded(HandMade(MemoryJournal(vault), vault))
    return run, await export(run.journal, run.journal, USER, run.stream, note="by hand")


async def test_a_run_survives_the_file() -> None:
    """Events byte for byte, texts in the clear with their domain, a header that says what it is."""
    run, text = await exported()
    records, texts = load(text)
    stored = await run.journal.read(USER, run.stream)
    assert [(r.seq, r.at, r.kind, r.body, r.hash) for r in records] == [
        (r.seq, r.at, r.kind, r.body, r.hash) for r in stored
    ]
    assert {ref: t.text for ref, t in texts.items()} == run.texts
    assert {t.domain for t in texts.values()} == {bytes(16).hex(), run.domain.hex()}
    assert json.loads(text.partition("\n")[0]) == {"golden": 1, "stream": run.stream.hex(), "note": "by hand"}
    assert dump(records, texts, "by hand") == text


async def test_the_file_replays_without_a_store() -> None:
    """As the store's run does."""
    _, text = await exported()
    report = replay_golden(text, CHECKER)
    assert (report.ok, report.differences, report.skipped) == (True, (), 0)


def test_line_ends_of_other_alphabets_stay_within_their_line() -> None:
    """U+2028 and its like are characters of a text, not ends of a line of the file."""
    texts = {"AAAA": GoldenText("11" * 16, "a\u2028b\x85c\nd")}
    records = [Record(bytes(16), 0, 1, "x", b"{}", bytes(32))]
    assert dump(records, texts).count("\n") == 3
    assert json.loads(dump(records, texts).split("\n")[2])["text"] == "a\u2028b\x85c\nd"


DAMAGE = {
    "no header": (lambda lines: lines[1:], "line 1"),
    "another format": (lambda lines: ['{"golden":2}', *lines[1:]], "line 1"),
    "no JSON": (lambda lines: [*lines[:3], "{", *lines[4:]], "line 4"),
    "no object": (lambda lines: [*lines[:3], "[]", *lines[4:]], "line 4"),
    "a missing event": (lambda lines: [*lines[:3], *lines[4:]], "line 4"),
    "a changed body": (lambda lines: [*lines[:2], lines[2].replace("scripted", "scripteD"), *lines[3:]], "line 3"),
    "another time": (lambda lines: [*lines[:2], lines[2].replace('"at":1', '"at":2'), *lines[3:]], "line 3"),
    "another kind": (lambda lines: [*lines[:2], lines[2].replace('"kind":"m', '"kind":"n'), *lines[3:]], "line 3"),
    "a missing field": (lambda lines: [*lines[:2], '{"seq":1}', *lines[3:]], "line 3"),
    "a changed public text": (lambda lines: [line.replace("You quote", "You invent") for line in lines], "line 14"),
    "no events": (lambda lines: lines[:1], "line 2"),
    "nothing": (lambda lines: [""], "line 1"),
}


@pytest.mark.parametrize("name", DAMAGE)
async def test_a_damaged_file_is_refused(name: str) -> None:
    """The error names the line."""
    damage, line = DAMAGE[name]
    _, text = await exported()
    with pytest.raises(JournalCorrupt, match=f"^{line}:"):
        replay_golden("\n".join(damage(text.rstrip("\n").split("\n"))) + "\n", CHECKER)
