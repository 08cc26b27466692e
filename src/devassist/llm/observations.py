"""What a prompt shows of a tool's result, read back. Pure and total.

A result is shown as its JSON, a failure as a sentence. A long text has its middle replaced by ``OMITTED``, which may
stand inside a JSON string, so no quotation may reach across it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, cast

from devassist.llm.classify import as_object

OMITTED = re.compile(r"… \d+ characters omitted …")
_CUT_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?(?=… \d+ characters omitted …)")
_LISTS = re.compile(r'"(?:matches|hits)"\s*:\s*\[\s*')
_NEXT = re.compile(r"\s*,\s*")
_FAILURE_CHARS = 500


@dataclass(frozen=True, slots=True)
class Seen:
    """``hits`` are the objects of ``matches`` or ``hits``; ``failure`` is what a failed tool said, else empty.

    ``value`` is the JSON of the text, None when it is none or was cut beyond reading; ``raw`` is its beginning.
    """

    value: object
    hits: tuple[dict[str, Any], ...]
    failure: str
    raw: str


def read_observation(text: str) -> Seen:
    """Read one observation. A JSON text that was cut for length still gives the hits that are whole."""
    raw = text.strip()[:_FAILURE_CHARS]
    value = _json_object(text)
    fields = as_object(value)
    if value is None:
        return Seen(None, _whole_hits(text), "" if raw.startswith("{") else raw or "(empty)", raw)
    listed = fields.get("matches", fields.get("hits"))
    hits = tuple(one for one in map(as_object, cast("list[object]", listed)) if one) if isinstance(listed, list) else ()
    error = fields.get("error")
    failure = ""
    if error and not hits:
        failure = str(as_object(error).get("message") or as_object(error).get("detail") or error)[:_FAILURE_CHARS]
    return Seen(value, hits, failure, raw)


def _json_object(text: str) -> object | None:
    if not text.lstrip().startswith("{"):
        return None
    for candidate in (text, _CUT_ESCAPE.sub(r"\1", text)):
        try:
            return cast("object", json.loads(candidate))
        except (ValueError, RecursionError):
            continue
    return None


def _whole_hits(text: str) -> tuple[dict[str, Any], ...]:
    begin = _LISTS.search(text)
    found: list[dict[str, Any]] = []
    at = begin.end() if begin else len(text)
    decoder = json.JSONDecoder()
    while text.startswith("{", at):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        found.append(as_object(value))
        more = _NEXT.match(text, at)
        at = more.end() if more else len(text)
    return tuple(found)
