"""Clauses of a legal text, made line by line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

from devassist.knowledge.parsing.document import Block, ClauseDraft
from devassist.knowledge.parsing.labels import Heading, Label, without_emphasis
from devassist.knowledge.parsing.pieces import pieces
from devassist.knowledge.parsing.tables import rows_as_text
from devassist.ports.knowledge_store import ClauseKind, ClauseNumber

_KIND_OF_RANK: dict[int, ClauseKind] = {1: "part", 2: "part", 3: "chapter", 4: "section"}


@dataclass(slots=True)
class ClauseBuilder:
    """Takes the lines of a legal text one by one, each as what it was found to be, and makes clauses of them."""

    script: Literal["zh", "en"]
    clauses: list[ClauseDraft] = field(default_factory=list[ClauseDraft])
    outline: list[str] = field(default_factory=list[str])
    _stack: list[Heading] = field(default_factory=list[Heading])
    _open: ClauseDraft | None = None
    _texts: list[str] = field(default_factory=list[str])
    _open_heading: Heading | None = None
    _prefix: str = ""
    _annexes: int = 0
    _paths: Counter[str] = field(default_factory=Counter[str])
    _after: list[ClauseDraft] = field(default_factory=list[ClauseDraft])  # tables within the open clause

    def article(self, line: Block, label: Label) -> None:
        self.close()
        text = without_emphasis(line.text.strip())
        number = ClauseNumber(label.article, label.sub)
        if self.script == "zh":
            path = f"art-{label.article}" + (f"-{label.sub}" if label.sub else "")
            kind: ClauseKind = "article"
        else:
            is_article = label.printed.lower().startswith("art")
            path = ("art-" if is_article else "sec-") + str(label.article) + (f".{label.sub}" if label.sub else "")
            kind = "article" if is_article else "section"
        self._begin(line, kind, label.printed, path, number)
        rest = text[label.end :].strip()
        self._texts = [rest] if rest else []

    def annex(self, line: Block) -> None:
        self.close()
        self._annexes += 1
        self._prefix = f"annex-{self._annexes}."
        self._stack = [Heading(line.text.strip(), 1, "named")]
        self.outline.append(line.text.strip())
        self._begin(line, "annex", line.text.strip(), f"annex-{self._annexes}")

    def heading(self, line: Block, heading: Heading) -> None:
        self.close()
        least = 2 if self._prefix else 0
        while len(self._stack) > (1 if least else 0) and self._stack[-1].rank >= heading.rank:
            self._stack.pop()
        self._stack.append(heading)
        self.outline.append(heading.text)
        self._open_heading = heading
        kind = _KIND_OF_RANK[heading.rank] if self._has_articles else "preamble"
        if self._prefix:
            kind = "annex"
        self._begin(line, kind, heading.text, f"{self._prefix}{kind}-{len(self.outline)}")

    @property
    def ends_with_numbered(self) -> bool:
        """Whether the last line was a heading such as 第四章 …, under which nothing stands yet."""
        held = self._open is not None and self._open.number is None and not self._texts and not self._after
        return (
            held and bool(self._stack) and self._stack[-1].form == "numbered" and self._open_heading == self._stack[-1]
        )

    def more_of_heading(self, line: Block) -> None:
        """The second line of a heading that was broken."""
        heading = self._stack[-1]
        joint = " " if self.script == "en" else ""
        whole = replace(heading, text=heading.text + joint + line.text.strip())
        self._stack[-1] = self._open_heading = whole
        self.outline[-1] = whole.text
        if self._open is not None:
            self._open = replace(self._open, label=whole.text)

    def text(self, line: Block) -> None:
        if self._open is None:
            self._begin(line, "annex" if self._prefix else "preamble", "", f"{self._prefix}preamble")
        self._texts.append(line.text.strip())
        if self._open is not None and line.end is not None:
            self._open = replace(self._open, end=line.end)

    def table(self, line: Block) -> None:
        owner = self._open
        headings = tuple(each.text for each in self._stack)
        label = owner.label if owner is not None else headings[-1] if headings else ""
        if owner is not None and owner.number is not None:
            headings = (*headings, label)
        name = f"{owner.path}.table" if owner is not None else f"{self._prefix}table"
        if owner is not None and owner.number is None and not self._texts:
            self._open = None  # only a heading stood above: it is the table's
        tables = pieces(rows_as_text(line.cells, line.header_rows))
        held = self.clauses
        if self._open is not None:
            held = self._after
        for number, text in enumerate(tables):
            path = self._path(name)
            cells = line.cells if not number else ()
            held.append(
                ClauseDraft(
                    "table", label, text, path, None, headings, line.page, line.start, line.end, cells
                )
            )  # fmt: skip

    def close(self) -> None:
        """End the open clause; one that holds no text was only a heading. Tables within it follow."""
        clause, texts = self._open, self._texts
        self._open, self._texts = None, []
        if clause is not None and (texts or clause.number is not None):
            whole = ["\n".join(texts)] if clause.number is not None else pieces(texts)
            for number, text in enumerate(whole):
                self.clauses.append(
                    replace(clause, text=text, path=clause.path if not number else self._path(clause.path))
                )
        self.clauses += self._after
        self._after.clear()

    @property
    def _has_articles(self) -> bool:
        return any(clause.number is not None for clause in self.clauses)

    def _begin(self, line: Block, kind: ClauseKind, label: str, path: str, number: ClauseNumber | None = None) -> None:
        full = self._prefix + path if number is not None else path
        headings = tuple(each.text for each in self._stack)
        if number is None and headings and headings[-1] == label:
            headings = headings[:-1]
        self._open = ClauseDraft(
            kind, label, "", self._path(full), number, headings, line.page, line.start, line.end
        )  # fmt: skip

    def _path(self, path: str) -> str:
        """``path``, with ``~n`` where it was used before."""
        self._paths[path] += 1
        return path if self._paths[path] == 1 else f"{path}~{self._paths[path]}"
