"""Yesterday's runs under today's core: recorded journals replay without a difference, forged ones do not.

The files are recorded once (scripts/record_golden.py) and never edited: a difference here means that the core behaves
otherwise than it did, which needs a flag in INIT.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from devassist.audit.golden import replay_golden
from devassist.tools.schema import SchemaChecker

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.jsonl"))
FORGED = [path for path in FILES if path.name.startswith("must_fail_")]
GENUINE = [path for path in FILES if path not in FORGED]
CHECKER = SchemaChecker()


def test_there_are_goldens_of_both_kinds() -> None:
    """A replay that finds nothing to replay, or nothing to object to, proves nothing."""
    assert len(GENUINE) >= 3
    assert len(FORGED) >= 1


def test_no_golden_was_edited() -> None:
    """SHA256SUMS lists every file as it was recorded."""
    listed = dict(reversed(line.split("  ")) for line in (HERE / "SHA256SUMS").read_text("utf-8").splitlines())
    assert listed == {path.name: sha256(path.read_bytes()).hexdigest() for path in FILES}


@pytest.mark.parametrize("path", GENUINE, ids=lambda p: p.stem)
def test_a_recorded_run_replays(path: Path) -> None:
    """Every decision is derived as it was made."""
    report = replay_golden(path.read_bytes().decode(), CHECKER)
    assert report.differences == ()
    assert (report.ok, report.skipped) == (True, 0)
    assert report.decisions > 3


@pytest.mark.parametrize("path", FORGED, ids=lambda p: p.stem)
def test_a_forged_run_does_not_replay(path: Path) -> None:
    """Its chain is sound; what it says cannot have been decided."""
    report = replay_golden(path.read_bytes().decode(), CHECKER)
    assert not report.ok
    assert report.differences
