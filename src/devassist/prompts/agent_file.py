"""One agent's YAML file -> AgentSpec, or ConfigInvalid naming the file and the field. Strict: nothing is guessed.

Fields (all but the first three may be left out)::

    name: policy                    # that of the file
    description: {zh: …, en: …}
    prompt: {zh: …, en: …}          # what the agent is told; how tools are called is added by itself
    tools: [get_policy]             # or '*' for every tool that exists; none by default
    model: agent                    # agent | chat: which of the two configured models
    protocol: text                  # text | tools; by default the setting's
    release: live                   # live | gated; by default gated where grounded
    grounded: false                 # answers only what its knowledge tool returned
    evidence: false                 # answers show what came of the last program that was run
    citations: quoted               # quoted | numbered: sources by title and label, or by [n]; where grounded
    unsupported: flag               # flag | remove: sentences that nothing supports; where grounded
    on_unknown: hold                # hold | tell: a call whose outcome is unknown
    parallel: false                 # may run several pure calls of one decision together
    approval: []                    # those of its tools, or '*', of which a person approves each call
    limits: {steps: 8, corrections: 2, tokens: 200000, deadline_s: 300, cost: "0.50"}
    max_reply_tokens: 0             # 0 leaves it to the provider
    context_tokens: 16000           # bounds the prompt
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import yaml

from devassist.core.agents import AgentSpec, LimitOverrides, Texts
from devassist.core.errors import ConfigInvalid
from devassist.core.prices import micro_units

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_TOOL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MOST = 10**9
_NEEDED = ("name", "description", "prompt")
_KNOWN = (
    *_NEEDED, "tools", "model", "protocol", "release", "grounded", "evidence", "citations", "unsupported", "on_unknown",
    "parallel", "approval", "limits", "max_reply_tokens", "context_tokens",
)  # fmt: skip
_CHOICES = {
    "model": ("agent", "chat"),
    "protocol": ("text", "tools"),
    "release": ("live", "gated"),
    "citations": ("quoted", "numbered"),
    "unsupported": ("flag", "remove"),
    "on_unknown": ("hold", "tell"),
}

T = TypeVar("T")


class _Loader(yaml.SafeLoader):
    """YAML as it is meant: a key that stands twice is an error, not the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def read_agent(path: Path, origin: str) -> AgentSpec:
    """The agent that the file declares."""
    try:
        data: Any = yaml.load(path.read_text("utf-8"), _Loader)  # a SafeLoader
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        detail = " ".join(str(error).split())
        raise ConfigInvalid(f"{path}: not readable YAML ({detail}); quote '*' and texts with a colon") from None
    return parse_agent(data, path.stem, str(path), origin)


def parse_agent(data: object, stem: str, where: str, origin: str) -> AgentSpec:
    """The agent in parsed YAML; ``stem`` is the file's name without its ending."""
    fields = _mapping(data, where, _KNOWN, _NEEDED)
    name = fields["name"]
    if name != stem:
        raise ConfigInvalid(f"{where}: name is {name!r}; it must be that of the file, {stem!r}")
    if _NAME.fullmatch(stem) is None:
        raise ConfigInvalid(f"{where}: a name is lower-case letters, digits, - and _, beginning with a letter")
    for key, allowed in _CHOICES.items():
        if key in fields and fields[key] not in allowed:
            raise ConfigInvalid(f"{where}: {key} is {fields[key]!r}; allowed is {' or '.join(allowed)}")
    tools = _tools(fields.get("tools", []), f"{where}: tools")
    approval = _tools(fields.get("approval", []), f"{where}: approval")
    for tool in approval if tools != "*" and approval != "*" else ():
        if tool not in tools:
            raise ConfigInvalid(f"{where}: approval: the agent does not have the tool {tool!r}")
    return AgentSpec(
        name=name,
        description=_texts(fields["description"], f"{where}: description"),
        prompt=_texts(fields["prompt"], f"{where}: prompt"),
        tools=tools,
        model=fields.get("model", "agent"),
        protocol=fields.get("protocol"),
        release=fields.get("release"),
        grounded=_of(bool, fields.get("grounded", False), f"{where}: grounded"),
        evidence=_of(bool, fields.get("evidence", False), f"{where}: evidence"),
        citations=fields.get("citations", "quoted"),
        unsupported=fields.get("unsupported", "flag"),
        on_unknown=fields.get("on_unknown", "hold"),
        parallel=_of(bool, fields.get("parallel", False), f"{where}: parallel"),
        approval=approval,
        limits=_limits(fields.get("limits", {}), f"{where}: limits"),
        max_reply_tokens=_whole(fields.get("max_reply_tokens", 0), f"{where}: max_reply_tokens", 0),
        context_tokens=_whole(fields.get("context_tokens", 16_000), f"{where}: context_tokens", 1000),
        origin=origin,
    )


def _mapping(data: object, where: str, known: tuple[str, ...], needed: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ConfigInvalid(f"{where}: fields are expected ({', '.join(needed or known)})")
    fields = cast("dict[str, Any]", data)
    if unknown := [str(key) for key in fields if key not in known]:
        raise ConfigInvalid(f"{where}: unknown field {unknown[0]}; known are {', '.join(known)}")
    if missing := [key for key in needed if key not in fields]:
        raise ConfigInvalid(f"{where}: the field {missing[0]} is missing")
    return fields


def _of(kind: type[T], value: object, where: str) -> T:
    if type(value) is not kind:
        raise ConfigInvalid(f"{where} is {value!r}; allowed is {_WORDS[kind]}")
    return cast("T", value)


_WORDS: dict[type, str] = {bool: "true or false", str: "a text", int: "a whole number", list: "a list"}


def _whole(value: object, where: str, least: int) -> int:
    number = _of(int, value, where)
    if not least <= number <= _MOST:
        raise ConfigInvalid(f"{where} is {number}; allowed is {least} to {_MOST}")
    return number


def _texts(value: object, where: str) -> Texts:
    fields = _mapping(value, where, Texts._fields, Texts._fields)
    texts = [_of(str, fields[lang], f"{where}/{lang}").strip() for lang in Texts._fields]
    if not all(texts):
        raise ConfigInvalid(f"{where}: a text is blank")
    return Texts(*texts)


def _tools(value: object, where: str) -> tuple[str, ...] | Literal["*"]:
    if value == "*":
        return "*"
    names = cast("list[object]", _of(list, value, f"{where} (a list, or '*' for all of them)"))
    checked = tuple(_of(str, name, where) for name in names)
    for name in checked:
        if _TOOL.fullmatch(name) is None or checked.count(name) > 1:
            raise ConfigInvalid(f"{where}: {name!r} is no tool's name, or stands twice")
    return checked


def _limits(value: object, where: str) -> LimitOverrides:
    fields = _mapping(value, where, ("steps", "corrections", "tokens", "deadline_s", "cost"))
    least = {"steps": 1, "corrections": 0, "tokens": 1, "deadline_s": 1}
    given = {key: _whole(fields[key], f"{where}/{key}", least[key]) for key in least if key in fields}
    if "deadline_s" in given:
        given["deadline_ms"] = given.pop("deadline_s") * 1000
    if "cost" in fields:
        try:
            given["cost"] = micro_units(_of(str, fields["cost"], f"{where}/cost (in quotes)"))
        except ValueError as error:
            raise ConfigInvalid(f"{where}/cost is {fields['cost']!r}; allowed is {error}") from None
    return LimitOverrides(**given)
