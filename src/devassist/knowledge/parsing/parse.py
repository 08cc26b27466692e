"""Bytes to a document, in this process. The service parses in another one (process.py): this may run long and crash."""

from __future__ import annotations

from collections.abc import Callable

from devassist.knowledge.parsing.assemble import assemble
from devassist.knowledge.parsing.document import Limits, ParsedDocument, Quarantine, Reading, Refused
from devassist.knowledge.parsing.docx import read_docx
from devassist.knowledge.parsing.html import read_html
from devassist.knowledge.parsing.json_asset import read_asset
from devassist.knowledge.parsing.markdown import read_markdown
from devassist.knowledge.parsing.pdf import read_pdf
from devassist.knowledge.parsing.plain import read_plain
from devassist.knowledge.parsing.sniff import MEDIA_TYPES, Type, type_of

VERSION = 1
"""Raised whenever the same bytes would give another document, so that a parse can be told from an earlier one."""

_READERS: dict[Type, Callable[[bytes, Limits], Reading]] = {
    "markdown": lambda data, _: read_markdown(data),
    "plain": lambda data, _: read_plain(data),
    "html": lambda data, _: read_html(data),
    "docx": read_docx,
    "pdf": read_pdf,
}


def parse(data: bytes, name: str, limits: Limits | None = None) -> ParsedDocument | Quarantine:
    """The document that ``data`` is, or why there is none. ``name`` is the file's name or path: its extension tells
    kinds of text apart, and a day or title in it is used where the text has none.

    MemoryError passes through: what was read so far is of no use.
    """
    limits = limits or Limits()
    try:
        if len(data) > limits.file_bytes:
            raise Refused("too_large", f"The file has {len(data)} bytes; at most {limits.file_bytes} are read.")
        kind = type_of(data, name, limits)
        parser = f"devassist-{kind}/{VERSION}"
        if kind == "json":
            return read_asset(data, name, parser)
        reading = _READERS[kind](data, limits)
        size = sum(len(block.text) + sum(len(cell.text) for cell in block.cells) for block in reading.blocks)
        if size > limits.text_chars:
            raise Refused("too_large", f"The file holds {size} characters; at most {limits.text_chars} are read.")
        return assemble(reading, name, parser, MEDIA_TYPES[kind])
    except Refused as refused:
        return refused.quarantine
    except RecursionError:
        return Quarantine("malformed", "The document is nested too deeply to be read.")
