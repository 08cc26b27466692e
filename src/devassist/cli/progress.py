"""How far something is: a bar that redraws itself on a terminal, a line now and then elsewhere; always on stderr."""

from __future__ import annotations

import sys
from time import monotonic

import click

from devassist.cli.output import cut, width

_BAR = 24
_DRAWN_S, _LINE_S = 0.1, 10.0


class Progress:
    """``total`` may grow while it goes on. ``noun`` is what is counted."""

    def __init__(self, noun: str, total: int) -> None:
        self._noun, self.total = noun, total
        self._terminal = sys.stderr.isatty()
        self._begun = self._drawn = monotonic()
        self._shown = 0
        self.done = 0

    def at(self, done: int, more: str = "") -> None:
        """So many are done; ``more`` stands behind the counts."""
        self.done = done
        now = monotonic()
        if now - self._drawn < (_DRAWN_S if self._terminal else _LINE_S) and done < self.total:
            return
        self._drawn = now
        if self._terminal:
            self._redraw(f"{self._bar()} {self.counts()}{more}")
        elif now - self._begun >= _LINE_S:
            click.echo(f"{self.counts()}{more}", err=True)

    def counts(self) -> str:
        seconds = max(monotonic() - self._begun, 1e-3)
        return f"{self.done}/{self.total} {self._noun}, {self.done / seconds:.1f}/s"

    def end(self) -> None:
        """Leave the terminal to what follows."""
        if self._terminal and self._shown:
            self._redraw("")
            click.echo("\r", nl=False, err=True)

    def _bar(self) -> str:
        full = _BAR * self.done // max(self.total, 1)
        return f"[{'#' * full}{'-' * (_BAR - full)}]"

    def _redraw(self, line: str) -> None:
        line = cut(line, 100)
        click.echo(f"\r{line}{' ' * max(self._shown - width(line), 0)}", nl=False, err=True)
        self._shown = width(line)
