"""From the passes beside the peers to a table and figures."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from bench.figures import Figure, Spread, table
from bench.peer_kill import Killed

OURS, HTTP = "devassist", "devassist-http"


class Case(NamedTuple):
    """So many runs at once, against an endpoint that answers after ``delay_ms``."""

    name: str
    at_once: int
    delay_ms: int

    @property
    def words(self) -> str:
        return f"c={self.at_once}" + (f" {self.delay_ms} ms" if self.delay_ms else "")


Rows = dict[tuple[Case, str], list[dict[str, Any]]]
"""What each contestant told in each pass; one with ``failed`` has no figures."""


class AtLeast(Figure):
    """More is better."""

    @property
    def met(self) -> bool:
        return self.value >= self.target


class _Measure(NamedTuple):
    """A key of a row, whether more of it is better, and the bars: what must be met, and what is aimed at."""

    key: str
    more: bool
    name: str
    case: str
    ways: tuple[tuple[str, float | None, float | None], ...]


MEASURES = (
    _Measure("cpu", False, "cpu", "c50", ((OURS, 1 / 7, 1 / 15), (HTTP, 1 / 4, 1 / 9))),
    _Measure("runs_s", True, "runs_s", "c300", ((OURS, 8, 15), (HTTP, None, None))),
    _Measure("over_p50_ms", False, "added_p50", "slow", ((OURS, 1 / 8, None), (HTTP, None, None))),
)
"""Over HTTP only CPU has a bar: the peers have no server, and there the load takes its share of the same cores."""


def of_rows(rows: Rows, notes: list[str]) -> tuple[list[Figure], list[Figure]]:
    """Prints the table; gives (aims, figures), and adds to ``notes`` what went wrong at the peers."""
    cases = list(dict.fromkeys(case for case, _ in rows))
    lines: list[list[str]] = []
    for (case, who), found in rows.items():
        good = [row for row in found if "failed" not in row]
        errors = Counter[str]()
        for row in found:
            errors.update({row["failed"]: 1} if "failed" in row else row["errors"])
        if errors:
            notes.append(f"{who} at {case.words}: {dict(errors)}")
        if good:
            lines.append([case.words, who, *_cells(rows, case, who, good), str(sum(errors.values()))])
    passes = max((len(found) for found in rows.values()), default=0)
    print(f"Median of {passes} passes [least-most]; ratios within each pass, to the best peer in it.\n")
    head = (
        "case",
        "who",
        "CPU ms/run",
        "x best peer",
        "runs/s",
        "x best peer",
        "added p50 ms",
        "x best peer",
        "p95 ms",
    )
    print(table((*head, "MiB", "errors"), lines), end="\n\n")
    aims: list[Figure] = []
    figures: list[Figure] = []
    for measure in MEASURES:
        for case in cases:
            if case.name == measure.case:
                _bars(rows, case, measure, aims, figures, notes)
    ours = [row for (_, who), found in rows.items() if who in (OURS, HTTP) for row in found]
    failed = sum("failed" in row or bool(row["errors"]) for row in ours)
    incomplete = sum(_incomplete(row, notes) for row in ours if "failed" not in row)
    figures.append(Figure("peers_turns_with_errors", failed, 0, "", ".0f"))
    figures.append(Figure("peers_incomplete_traces", incomplete, 0, "", ".0f"))
    return aims, figures


def _cells(rows: Rows, case: Case, who: str, good: list[dict[str, Any]]) -> list[str]:
    def middle(key: str, form: str) -> str:
        known = [row[key] for row in good if row[key] is not None]
        return f"{Spread.of(known).middle:{form}}" if known else ""

    def beside(key: str, more: bool) -> str:
        ratios = _ratios(rows, case, who, key, more) if who in (OURS, HTTP) else []
        return Spread.of(ratios).show(".1f" if more else ".3f") if ratios else ""

    memory = max(row.get("devassist", {}).get("rss_mib", row["rss_mib"]) for row in good)
    return [
        Spread.of([row["cpu"] for row in good]).show(), beside("cpu", False), middle("runs_s", ".0f"),
        beside("runs_s", True), middle("over_p50_ms", ".0f"), beside("over_p50_ms", False),
        middle("over_p95_ms", ".0f"), f"{memory:.0f}",
    ]  # fmt: skip


def _ratios(rows: Rows, case: Case, who: str, key: str, more: bool) -> list[float]:
    """Of each pass in which both ran."""
    found: list[float] = []
    for number, mine in enumerate(rows[case, who]):
        others = [rows[at][number].get(key) for at in rows if at[0] == case and at[1] not in (OURS, HTTP)]
        known = [other for other in others if other]
        if known and mine.get(key) is not None:
            found.append(mine[key] / (max(known) if more else min(known)))
    return found


def _bars(
    rows: Rows, case: Case, measure: _Measure, aims: list[Figure], figures: list[Figure], notes: list[str]
) -> None:
    for who, bar, aim in measure.ways:
        ratios = _ratios(rows, case, who, measure.key, measure.more) if (case, who) in rows else []
        name = f"peers_{measure.name}_{'http' if who == HTTP else 'inprocess'}_{case.name}"
        if not ratios:
            notes.append(f"{name} was not measured: no pass with a peer in it")
            continue
        kind, form = (AtLeast, ".1f") if measure.more else (Figure, ".4f")
        value = Spread.of(ratios).middle
        if bar is None:
            print(f"INFO {name} value={value:{form}}x")
        else:
            figures.append(kind(name, value, round(bar, 4), "x", form))
        if aim is not None:
            aims.append(kind(name, value, round(aim, 4), "x", form))


def _incomplete(row: dict[str, Any], notes: list[str]) -> int:
    seen = row["devassist"]
    if seen["wrong"]:
        notes.append(f"a trace is not whole: {seen['wrong']}")
    return seen["made"] - seen["whole"]


def of_kills(kills: list[Killed]) -> list[Figure]:
    """Prints the table; gives the figures."""
    print("kill -9 with 300 runs in flight, by the witness that the tools leave.\n")
    print(table([name.replace("_", " ") for name in Killed.__slots__], [each.row for each in kills]), end="\n\n")

    def total(key: str, effect: str = "") -> int:
        return sum(getattr(each, key) for each in kills if effect in ("", each.effect))

    return [
        Figure("kill_acknowledged_lost", total("lost"), 0, "", ".0f"),
        Figure("kill_unmarked_repeats", total("unmarked"), 0, "", ".0f"),
        Figure("kill_second_effects_with_key", total("second_effects", "idempotent"), 0, "", ".0f"),
        Figure("kill_once_repeated", total("repeats", "once"), 0, "", ".0f"),
        Figure("kill_missing_rows", total("missing_rows"), 0, "", ".0f"),
    ]
