"""What a reader found -> a document (pure): title, header, articles or sections, dates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from devassist.knowledge.parsing.articles import Articles, articles, as_lines, script_of
from devassist.knowledge.parsing.cleaning import unblanked
from devassist.knowledge.parsing.document import Block, ClauseDraft, Kind, Lang, ParsedDocument, Reading, Refused
from devassist.knowledge.parsing.header import Header, Validity, iso_day, issuer_of, read_header, validity
from devassist.knowledge.parsing.labels import heading_of, is_contents, label_of, without_emphasis
from devassist.knowledge.parsing.sections import sections
from devassist.knowledge.parsing.traits import (
    day_in_name,
    holds_kana,
    kind_of,
    language,
    title_in_name,
    without_furniture,
)

_LONGEST_TITLE = 120
_TITLE = re.compile(r"(?=.*[^\W\d_])[^。；|\n]{2,60}")
_MOST_TITLE_LINES = 3
_LONGEST_HEADER_LINE = 400
_MOST_HEADER_LINES = 60
_STATED_LINES = 20
_STATED = re.compile(
    r"(?P<name>生效日期|施行日期|实施日期|发布日期|公布日期|印发日期|发布机构|发布单位|制定机关|发文机关|发布部门|归口部门|"
    r"effective(?: date| from| as of)?|published(?: on)?|issued(?: on)?|issued by|issuer)"
    r"\s*[:：]\s*(?P<value>\S.{0,80})",
    re.IGNORECASE,
)
_EFFECTIVE = frozenset(
    ["生效日期", "施行日期", "实施日期", "effective", "effective date", "effective from", "effective as of",
     "effective_date", "valid_from"]
)  # fmt: skip
_PROMULGATED = frozenset(
    {"发布日期", "公布日期", "印发日期", "published", "published on", "issued", "issued on", "promulgated_on", "date"}
)
_ISSUER = frozenset({"发布机构", "发布单位", "制定机关", "发文机关", "发布部门", "归口部门", "issued by", "issuer"})


def assemble(reading: Reading, name: str, parser: str, media_type: str) -> ParsedDocument:
    """Raises Refused (``empty``) when nothing is left to find."""
    blocks, dropped = without_furniture(reading.blocks)
    marked = any(block.kind == "info_end" for block in blocks)
    script = script_of(as_lines([block for block in blocks if block.kind != "info_end"]))
    title, blocks = _title(blocks, reading, name, legal=script is not None or marked)
    warnings = [*reading.warnings, *(f"Left out as part of the page: {text}" for text in dropped)]
    if script is None and not marked:
        document = _of_sections(blocks, title, reading)
    else:
        document = _of_articles(blocks, title, script, name)
    if not document.clauses:
        raise Refused("empty", "The file holds no text that could be found or cited.")
    lang = document.lang
    if lang == "zh" and holds_kana(clause.text for clause in document.clauses):
        warnings.append("The text looks Japanese; it is treated as Chinese.")
    document = _with_facts(document, reading, day_in_name(name))
    return replace(
        document, parser=parser, media_type=media_type, charset=reading.charset,
        warnings=tuple(dict.fromkeys([*warnings, *document.warnings])),
    )  # fmt: skip


def _title(blocks: Sequence[Block], reading: Reading, name: str, legal: bool) -> tuple[str, list[Block]]:
    """The title, and the blocks without it where it is printed: the first heading of the highest level, what the format
    says, the first short line of a legal text, or the file's name."""
    headings = [b for b in blocks[:_MOST_HEADER_LINES] if b.kind == "heading" and (not legal or not _is_of_body(b))]
    top = min((b.level for b in headings), default=0)
    first = next((b for b in headings if b.level == top), None)
    if reading.facts.get("title"):
        return reading.facts["title"], [b for b in blocks if b is not first or b.text != reading.facts["title"]]
    if first is not None and len(first.text) <= _LONGEST_TITLE and (legal or top == 1):
        return " ".join(first.text.split()), [b for b in blocks if b is not first] if legal else list(blocks)
    if legal:
        for block in blocks[:5]:
            if _is_of_body(block):
                break
            text = block.text.split("\n")[0].strip()
            if block.kind == "text" and _TITLE.fullmatch(text) and not read_header([text]).history:
                return _spread(text), _without_first_line(blocks, block)
    return reading.title or title_in_name(name), list(blocks)


def _spread(text: str) -> str:
    """A title without blanks between characters that were only set apart."""
    return re.sub(r"(?<=[\u4e00-\u9fff])[ \u3000]+(?=[\u4e00-\u9fff](?:[ \u3000]|$))", "", text)


def _without_first_line(blocks: Sequence[Block], block: Block) -> list[Block]:
    rest = block.text.partition("\n")[2].strip()
    shift = len(block.text) - len(rest)
    found: list[Block] = []
    for each in blocks:
        if each is not block:
            found.append(each)
        elif rest:
            start = None if block.start is None else block.start + shift
            found.append(replace(block, text=rest, start=start))
    return found


def _is_of_body(block: Block) -> bool:
    text = without_emphasis(block.text.strip())
    if is_contents(block) or label_of(text, "zh") or label_of(text, "en"):
        return True
    heading = heading_of(block)
    return heading is not None and heading.form != "marked"


def _of_articles(blocks: Sequence[Block], title: str, script: Literal["zh", "en"] | None, name: str) -> ParsedDocument:
    """``script`` None: an official text without numbered articles, whose header is read all the same."""
    above, body = _parted(blocks)
    header = read_header(line.text for line in as_lines(above) if line.kind != "table")
    rest = _rest(header, title)
    front = [Block("text", text) for text in rest]
    if script is None:
        found = Articles(sections([*front, *_without_title(body, title)], title), (), (), ())
    else:
        found = articles([*front, *_without_title(as_lines(body), title)], script)
    closing = [clause.text for clause in found.clauses if script is None or clause.number is not None]
    held = validity(header, closing, named_on=day_in_name(name), lang=script or "zh")
    issuer = issuer_of(header.history)
    official = any(block.kind == "info_end" for block in blocks)
    kind = kind_of(title, issuer, " ".join(rest), legal=True, technical=False, official=official)
    lang = language(clause.text for clause in found.clauses)
    return _document(title, lang, kind, found.clauses, issuer, held, header, (*held.warnings, *_noted(found)))


def _without_title(lines: Sequence[Block], title: str) -> list[Block]:
    """Lines without the first ones where they say the title again, which may be broken over some."""
    for count in range(1, min(len(lines), _MOST_TITLE_LINES) + 1):
        if any(line.kind == "table" for line in lines[:count]):
            break
        if unblanked("".join(line.text for line in lines[:count])) == unblanked(title):
            return list(lines[count:])
    return list(lines)


def _noted(found: Articles) -> tuple[str, ...]:
    listed = len(found.contents)
    return (*found.warnings, *([f"Left out as a table of contents: {listed} lines"] if listed else []))


def _rest(header: Header, title: str) -> list[str]:
    """Lines above the text that are neither history nor the title again, which may be broken over two lines."""
    whole = unblanked(title)
    return [line for line in header.rest if unblanked(line) not in whole]


def _parted(blocks: Sequence[Block]) -> tuple[list[Block], list[Block]]:
    """What stands above the text, and the text: up to the mark, or up to the first heading, article or long line."""
    marks = [i for i, block in enumerate(blocks) if block.kind == "info_end"]
    if marks:
        return list(blocks[: marks[0]]), [b for b in blocks[marks[0] + 1 :] if b.kind != "info_end"]
    at = 0
    lines = as_lines(blocks)
    for line in lines:
        opened = sum(each.text.count("《") - each.text.count("》") for each in lines[:at])
        if at >= _MOST_HEADER_LINES or line.kind == "table" or len(line.text) > _LONGEST_HEADER_LINE:
            break
        if opened <= 0 and (_is_of_body(line) or line.kind == "heading"):
            break
        at += 1
    return lines[:at], lines[at:]


def _of_sections(blocks: Sequence[Block], title: str, reading: Reading) -> ParsedDocument:
    clauses = sections(blocks, title)
    technical = any(clause.kind == "code" or "`" in clause.text for clause in clauses)
    lang = language(clause.text for clause in clauses)
    kind = kind_of(title, None, "", legal=False, technical=technical)
    return _document(title, lang, kind, clauses, None, Validity(None, None, "unknown"), Header((), None, None, ()), ())


def _document(
    title: str, lang: Lang, kind: Kind, clauses: Sequence[ClauseDraft], issuer: str | None, held: Validity,
    header: Header, warnings: Sequence[str],
) -> ParsedDocument:  # fmt: skip
    return ParsedDocument(
        title=title, lang=lang, kind=kind, clauses=tuple(clauses), parser="", media_type="", issuer=issuer,
        promulgated_on=held.promulgated_on, effective_date=held.effective_date, effective_basis=held.basis,
        history=header.history, warnings=tuple(warnings),
    )  # fmt: skip


def _with_facts(document: ParsedDocument, reading: Reading, named_on: str | None) -> ParsedDocument:
    """What the front matter states, or lines such as ``生效日期：2024年1月1日`` at the top of the text."""
    facts = dict(reading.facts)
    for block in reading.blocks[:_STATED_LINES]:
        if block.kind in ("text", "item"):
            for line in block.text.split("\n"):
                match = _STATED.match(line.strip("*> -"))
                if match:
                    facts.setdefault(match["name"].lower(), match["value"].strip("* "))
    issuer = next((value for key, value in facts.items() if key in _ISSUER), None)
    issued = next((day for key, value in facts.items() if key in _PROMULGATED and (day := iso_day(value))), None)
    since = next((day for key, value in facts.items() if key in _EFFECTIVE and (day := iso_day(value))), None)
    if document.issuer is None and issuer:
        document = replace(document, issuer=issuer)
    if document.promulgated_on is None and (issued or named_on):
        document = replace(document, promulgated_on=issued or named_on)
    if since is not None:
        document = replace(document, effective_date=since, effective_basis="stated")
    elif document.effective_date is None and document.effective_basis == "unknown" and issued:
        document = replace(document, effective_date=issued, effective_basis="assumed_promulgation")
    if facts.get("kind") in get_args(Kind):
        document = replace(document, kind=facts["kind"])  # type: ignore[arg-type]  # checked the line before
    if facts.get("lang") in get_args(Lang):
        document = replace(document, lang=facts["lang"])  # type: ignore[arg-type]
    return document
