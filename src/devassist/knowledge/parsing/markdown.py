"""Markdown to blocks, with markdown-it-py.

A legal text in Markdown is read line by line: what stands in it is law and no markup, so its asterisks, numbered lines
and indents stay. In other texts links lose their targets, emphasis its marks and inline code keeps its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from devassist.knowledge.parsing.articles import script_of
from devassist.knowledge.parsing.charset import decode
from devassist.knowledge.parsing.cleaning import clean
from devassist.knowledge.parsing.document import Block, Cell, Reading
from devassist.knowledge.parsing.html import blocks_of_html, inline_text
from devassist.knowledge.parsing.plain import text_blocks

_DOCS = MarkdownIt("commonmark").enable("table").enable("strikethrough")
_LEGAL = (
    MarkdownIt("commonmark")
    .enable("table")
    .disable(
        [
            "code",
            "list",
            "blockquote",
            "lheading",
            "reference",
            "hr",
            "emphasis",
            "escape",
            "entity",
            "link",
            "backticks",
        ]
    )
)
_FRONT = re.compile(r"\A---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_ANCHOR = re.compile(r"\s*\{\s*:?\s*#(?P<id>[\w.:-]+)[^{}]*\}\s*$")
_INFO_END = re.compile(r"<!--\s*INFO END\s*-->")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ADMONITION = re.compile(r"^(?P<indent>[ \t]*)(?:!!!|\?\?\?\+?|===)[ \t]+(?P<title>[^\n]*)$")
_FENCE = re.compile(r"^[ \t]*(```|~~~)")
_SLASHES = re.compile(r"^/{3,}[ \t]*(?P<title>[^\n]*)$")
_LANGUAGE = re.compile(r"[\w+#-]+(?!=)\b")
_INCLUDE = re.compile(r"^\{\*.*\*\}$")
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")


def read_markdown(data: bytes) -> Reading:
    """Raises Refused (``undecodable``)."""
    decoded = decode(data)
    text = clean(decoded.text)
    front = _FRONT.match(text)
    facts: dict[str, str] = {}
    if front is not None:
        facts = _facts(front[1])
        text = "\n" * front[0].count("\n") + text[front.end() :] if facts else text
    shift = front.end() - front[0].count("\n") if front is not None and facts else 0
    legal = script_of(_rough_lines(text)) is not None
    tokens = (_LEGAL if legal else _DOCS).parse(text if legal else _without_admonitions(text))
    blocks = _Reader(text, shift, legal).read(tokens)
    return Reading(tuple(blocks), title=facts.get("title", ""), facts=facts, charset=decoded.charset)


def _facts(source: str) -> dict[str, str]:
    """Front matter whose values are plain; nothing when it is no mapping."""
    try:
        value: Any = yaml.safe_load(source)
    except yaml.YAMLError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {str(key).lower(): str(each) for key, each in value.items() if isinstance(each, str | int | float) or each}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _rough_lines(text: str) -> list[Block]:
    lines = (line.strip(" \t\u3000#*_") for block in text_blocks(text) for line in block.text.split("\n"))
    return [Block("text", line) for line in lines if line]


def _without_admonitions(text: str) -> str:
    """Indented admonitions and tabs (``!!! note "Title"``) as plain blocks, on the same lines."""
    lines = text.split("\n")
    inside, fenced = "", False
    for i, line in enumerate(lines):
        if inside:
            if line.startswith(inside):
                lines[i] = line = line[len(inside) :]
            elif line.strip():
                inside = ""
        fenced ^= bool(_FENCE.match(line))
        match = None if fenced else _ADMONITION.match(line)
        if match is not None and not inside and i + 1 < len(lines) and lines[i + 1].strip():
            title = re.search(r'"([^"]*)"', match["title"])
            inside = match["indent"] + "    "
            lines[i] = f"{match['indent']}{title[1]}\\" if title else ""
    return "\n".join(lines)


class _Reader:
    def __init__(self, text: str, shift: int, legal: bool) -> None:
        self._lines = text.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self._shift = shift
        self._legal = legal
        self._lists: list[tuple[bool, int]] = []
        self._marker = ""
        self._blocks: list[Block] = []

    def read(self, tokens: Sequence[Token]) -> list[Block]:
        i = 0
        while i < len(tokens):
            i = self._token(tokens, i)
        return self._blocks

    def _token(self, tokens: Sequence[Token], i: int) -> int:
        """Take in the token at ``i``; returns where to go on."""
        token = tokens[i]
        if token.type in ("bullet_list_open", "ordered_list_open"):
            self._lists.append((token.type == "ordered_list_open", 0))
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            self._lists.pop()
            self._marker = ""
        elif token.type == "list_item_open":
            self._marker = f"{token.info}{token.markup}" if self._lists[-1][0] else token.markup
        elif token.type == "heading_open":
            self._heading(token, tokens[i + 1])
            return i + 3
        elif token.type == "inline":
            self._text(token, self._inline(token))
        elif token.type in ("fence", "code_block"):
            self._code(token)
        elif token.type == "html_block":
            self._html(token)
        elif token.type == "table_open":
            return self._table(tokens, i)
        return i + 1

    def _heading(self, token: Token, inline: Token) -> None:
        text = self._inline(inline)
        match = _ANCHOR.search(text)
        anchor = match["id"] if match else ""
        if match:
            text = text[: match.start()]
        text = " ".join(text.replace("`", "").split())
        if text:
            self._blocks.append(self._block(token, "heading", text, level=int(token.tag[1:]), anchor=anchor))

    def _text(self, token: Token, text: str) -> None:
        lines: list[str] = []
        for line in text.split("\n"):
            slashes = _SLASHES.match(line.strip())
            shown = slashes["title"].partition("|")[2].strip() if slashes else line
            if shown.strip() and not (not self._legal and _INCLUDE.match(shown.strip())):
                lines.append(shown.strip() if self._lists else shown if self._legal else shown.rstrip())
        if not lines:
            return
        joined = "\n".join(lines)
        if not self._lists:
            self._blocks.append(self._block(token, "text", joined))
            return
        depth, marker, self._marker = len(self._lists), self._marker, ""
        last = self._blocks[-1] if self._blocks else None
        if not marker and last is not None and last.kind == "item" and last.level == depth:
            end = self._block(token, "item", "").end
            self._blocks[-1] = Block("item", f"{last.text}\n{joined}", depth, last.marker, "", None, last.start, end)
            return
        self._blocks.append(self._block(token, "item", joined, level=depth, marker=marker))

    def _code(self, token: Token) -> None:
        text = token.content.rstrip("\n")
        language = _LANGUAGE.match(token.info.lstrip("{. "))
        name = language[0] if language else ""
        if not text.strip():
            return
        if self._lists:
            self._text(token, f"```{name}\n{text}\n```")
        else:
            self._blocks.append(self._block(token, "code", text, anchor=name))

    def _html(self, token: Token) -> None:
        if _INFO_END.search(token.content):
            self._blocks.append(self._block(token, "info_end", ""))
        rest = _COMMENT.sub("", token.content)
        if rest.strip():
            place = self._block(token, "text", "")
            for block in blocks_of_html(rest):
                self._blocks.append(
                    Block(
                        block.kind, block.text, block.level, block.marker, block.anchor, None, place.start, place.end,
                        block.cells, block.header_rows,
                    )
                )  # fmt: skip

    def _table(self, tokens: Sequence[Token], i: int) -> int:
        token, cells, row, column = tokens[i], list[Cell](), -1, 0
        while tokens[i].type != "table_close":
            if tokens[i].type == "tr_open":
                row, column = row + 1, 0
            elif tokens[i].type == "inline":
                cells.append(Cell(self._inline(tokens[i]), row, column))
                column += 1
            i += 1
        self._blocks.append(self._block(token, "table", "", cells=tuple(cells), header_rows=1))
        return i + 1

    def _inline(self, token: Token) -> str:
        if self._legal:
            return _STRONG.sub(r"\2", token.content)
        return "".join(map(_inline_piece, token.children or [])).strip()

    def _block(self, token: Token, kind: Any, text: str, **more: Any) -> Block:
        if token.map is None:
            return Block(kind, text, **more)
        first, after = token.map
        last = min(after, len(self._lines)) - 1
        while last > first and not self._lines[last].strip():
            last -= 1
        start = self._starts[first] + len(self._lines[first]) - len(self._lines[first].lstrip())
        end = self._starts[last] + len(self._lines[last].rstrip())
        return Block(kind, text, start=start + self._shift, end=end + self._shift, **more)


def _inline_piece(token: Token) -> str:
    match token.type:
        case "text" | "text_special":
            return token.content
        case "code_inline":
            return f"`{token.content}`"
        case "softbreak" | "hardbreak":
            return "\n"
        case "image":
            return "".join(map(_inline_piece, token.children or [])) or token.content
        case "html_inline":
            return inline_text(token.content)
        case _:
            return ""
