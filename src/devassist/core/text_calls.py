"""Tool calls that stand in the text of a reply: an ``Action:`` line with its arguments, or a model's own call tags.

Models whose server did not recognise their call format leave it in the text. Read here are the forms whose name and
arguments are plain to see (Hermes/Qwen JSON, ``<function=name>{…}``, DeepSeek's tokens); of the others it is only known
that they are calls, so that they never pass for an answer. Which names exist is the caller's business: what is read
must not depend on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from devassist.core.args import MALFORMED, Decoded, decode, from_value
from devassist.core.grammar import ARGS, TAG, Mark, tag_kind

_ARGS_INLINE = re.compile(r"(?i:\b(?:args|arguments|action[ _]input))[*_`]{0,3}[ \t]{0,8}[:：]|[{｛]")
_OBJECT = re.compile(r"\s*(?:(?:```|~~~|`)[ \t]*[A-Za-z0-9]{0,8}\s*)?[{｛]")
_DRESS = " \t\r\xa0\u3000`*\"'“”‘’<>[]()（）.,;；。"
_NAME_KEYS = ("name", "tool", "tool_name", "action", "function")
_ARGS_KEYS = ("arguments", "args", "parameters", "action_input", "tool_input", "input")
_DEEPSEEK = re.compile(
    r"(?:<[|｜]tool[▁_ ]calls[▁_ ]begin[|｜]>\s*)?<[|｜]tool[▁_ ]call[▁_ ]begin[|｜]>"
    r"(?P<head>[^<\n]{0,80})<[|｜]tool[▁_ ]sep[|｜]>(?:[ \t]*(?P<line>[^{<\n]{1,80})\n)?"
)


@dataclass(frozen=True, slots=True)
class Written:
    """A call as written: its name without decoration, and its arguments. ``problem``: why it cannot be read at all."""

    name: str
    decoded: Decoded
    problem: str = ""


def undress(name: str) -> str:
    """A tool's name without the quotes, marks and brackets that models put around it."""
    return name.strip(_DRESS)


def read_call(text: str, mark: Mark) -> Written:
    """The call that begins at ``mark``, which is of kind ``tool``, ``other`` or ``call``."""
    if mark.kind == "call":
        return _tagged(text, mark.end)
    stop = text.find("\n", mark.end)
    stop = len(text) if stop < 0 else stop
    tag = TAG.search(text, mark.end, stop)
    if tag is not None and tag_kind(tag) == "call":
        return _tagged(text, tag.start())
    inline = _ARGS_INLINE.search(text, mark.end, stop)
    at = inline.start() if inline else stop
    name = undress(text[mark.end : at])
    if keyword := ARGS.match(text, at):
        return Written(name, decode(text, keyword.end()))
    if _OBJECT.match(text, at):
        return Written(name, decode(text, at))
    return Written(name, Decoded(None, at, MALFORMED, "no 'args:' line follows the action"))


def bare_call(text: str) -> Written | None:
    """A whole text that is one JSON object which names a tool and its arguments; None when it is anything else."""
    if _OBJECT.match(text) is None:
        return None
    outer = decode(text)
    if outer.args is None or text[outer.end :].strip():
        return None
    written = _from_object(outer)
    return None if written.problem else written


def _from_object(outer: Decoded) -> Written:
    members = outer.args or {}
    name = next((members[key] for key in _NAME_KEYS if isinstance(members.get(key), str)), None)
    given = [key for key in _ARGS_KEYS if key in members]
    if not isinstance(name, str) or not given:
        return Written("", outer, "the call's JSON needs a 'name' and 'arguments'")
    return Written(undress(name), from_value(members[given[0]], outer))


def _tagged(text: str, at: int) -> Written:
    if deepseek := _DEEPSEEK.match(text, at):
        return Written(undress(deepseek["line"] or deepseek["head"]), decode(text, deepseek.end()))
    tag = TAG.match(text, at)
    at = tag.end() if tag else at
    if tag is None or tag["call"] is None or _OBJECT.match(text, at) is None:
        return Written("", Decoded(None, at), "a tool call stands there in another format")
    decoded = decode(text, at)
    if tag["call"].startswith("function="):
        return Written(undress(tag["call"].removeprefix("function=")), decoded)
    if tag["call"].startswith("invoke"):
        return Written("", decoded, "a tool call stands there in another format")
    return Written("", decoded) if decoded.args is None else _from_object(decoded)
