"""Numbers to lines: medians with their range, and whether a bar is met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of several repetitions, and the least and the most seen."""

    middle: float
    least: float
    most: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median(values), min(values), max(values), len(values))

    def show(self, form: str = ".2f") -> str:
        return f"{self.middle:{form}} [{self.least:{form}}-{self.most:{form}}]"


def ratios(upper: Sequence[float], lower: Sequence[float]) -> Spread:
    """Of each repetition with its own limit: what disturbs both alike cancels out."""
    return Spread.of([a / b for a, b in zip(upper, lower, strict=True)])


@dataclass(frozen=True, slots=True)
class Figure:
    """What is promised, and what was measured; less is better, unless the target is the least that is wanted."""

    name: str
    value: float
    target: float
    unit: str
    form: str = ".2f"
    least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.target if self.least else self.value <= self.target

    def line(self, kind: str = "FIGURE", word: str = "target") -> str:
        shown = f"value={self.value:{self.form}}{self.unit} {word}={self.target:g}{self.unit}"
        return f"{kind} {self.name} {shown} {'ok' if self.met else 'short'}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
