"""A declared agent, and how it becomes the definition that a run is started with. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from devassist.core.definition import Citations, Definition, Lang, Unsupported
from devassist.core.errors import ConfigInvalid, ToolForbidden, ToolNotAllowed, ToolNotFound
from devassist.core.event_parts import Limits, OnUnknown, Release
from devassist.core.scope import Scope
from devassist.core.tooling import ToolSpec

Protocol = Literal["text", "tools"]

_NATIVE: dict[Lang, str] = {
    "zh": "需要时调用所提供的工具：只做下一步需要的调用，等结果返回再继续，不要编造结果。信息足够时直接写出答案。",
    "en": (
        "Call the tools you are given when you need them: only what the next step needs, then wait for the result. "
        "Never make a result up. When you know enough, write the answer itself."
    ),
}


class Texts(NamedTuple):
    """One text in both languages."""

    zh: str
    en: str

    def of(self, lang: Lang) -> str:
        return self.zh if lang == "zh" else self.en


class LimitOverrides(NamedTuple):
    """Bounds that an agent sets itself, in the units of Limits; None keeps the setting's."""

    steps: int | None = None
    corrections: int | None = None
    tokens: int | None = None
    deadline_ms: int | None = None
    cost: int | None = None

    def over(self, default: Limits) -> Limits:
        return Limits(*(theirs if own is None else own for own, theirs in zip(self, default, strict=True)))


NO_OVERRIDES = LimitOverrides()


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """An agent as it is declared.

    ``tools`` names them in any order, ``*`` stands for every tool that exists. ``model`` says which of the two
    configured models it uses. ``protocol`` None follows the setting; ``release`` None is gated where ``grounded``, else
    live. ``evidence``: its answers show what came of the last program that was run. ``citations`` and ``unsupported``
    say how a grounded agent names its sources, and what becomes of sentences that nothing supports. ``approval`` names
    those of its tools, ``*`` all of them, of which a person has to approve each call.
    ``origin`` leads its prompt version: where the text comes from.
    """

    name: str
    description: Texts
    prompt: Texts
    tools: tuple[str, ...] | Literal["*"] = ()
    model: Literal["agent", "chat"] = "agent"
    protocol: Protocol | None = None
    release: Release | None = None
    grounded: bool = False
    evidence: bool = False
    citations: Citations = "quoted"
    unsupported: Unsupported = "flag"
    on_unknown: OnUnknown = "hold"
    parallel: bool = False
    approval: tuple[str, ...] | Literal["*"] = ()
    limits: LimitOverrides = NO_OVERRIDES
    max_reply_tokens: int = 0
    context_tokens: int = 16_000
    origin: str = "packaged"

    @property
    def released(self) -> Release:
        """The release rule in force."""
        return self.release or ("gated" if self.grounded else "live")


def resolve(
    spec: AgentSpec, *, lang: Lang, tools: Sequence[ToolSpec], restrict: Sequence[str] | None, model: str,
    model_kind: str, protocol: Protocol, limits_default: Limits, protocol_text: str,
    all_names: Collection[str] = (), fallbacks: tuple[str, ...] = (), forbidden: Collection[str] = (),
) -> Definition:  # fmt: skip
    """Everything that decides how a run of ``spec`` behaves.

    ``tools`` are those that may be used, ``all_names`` the names of whatever else is registered. ``restrict`` None
    leaves the agent what it has, () leaves it none. ``protocol`` is the one in force (the agent's own, where it has
    one), ``protocol_text`` what the text protocol tells the model; native calls need less. ``forbidden`` names tools
    that need a right which the caller does not have: they are left out. Raises ToolNotFound, ToolNotAllowed,
    ToolForbidden (``restrict`` names one of these), or ConfigInvalid when the agent declares a tool that nobody
    registered.
    """
    chosen = select_tools(spec, tools, restrict, all_names, forbidden)
    added = protocol_text if protocol == "text" else _NATIVE[lang] if chosen else ""
    system = "\n\n".join(part for part in (spec.prompt.of(lang), added.strip()) if part)
    return Definition(
        agent=spec.name,
        system=system,
        prompt_version=f"{spec.origin}:{hashlib.sha256(system.encode()).hexdigest()[:12]}",
        lang=lang,
        tools=chosen,
        model=model,
        model_kind=model_kind,
        limits=spec.limits.over(limits_default),
        protocol=protocol,
        release=spec.released,
        on_unknown=spec.on_unknown,
        parallel=spec.parallel,
        grounded=spec.grounded,
        max_reply_tokens=spec.max_reply_tokens,
        context_tokens=spec.context_tokens,
        fallbacks=fallbacks,
        evidence=spec.evidence,
        citations=spec.citations,
        unsupported=spec.unsupported,
    )


def select_tools(
    spec: AgentSpec, tools: Sequence[ToolSpec], restrict: Sequence[str] | None, all_names: Collection[str] = (),
    forbidden: Collection[str] = (),
) -> tuple[ToolSpec, ...]:  # fmt: skip
    """The tools of a run, in the order of ``tools``; arguments and errors as for ``resolve``."""
    known = {tool.name for tool in tools} | set(all_names)
    declared = [name for names in (spec.tools, spec.approval) if names != "*" for name in names]
    if missing := [name for name in declared if name not in known]:
        raise ConfigInvalid(f"Agent {spec.name} declares {missing[0]!r}, a tool that does not exist; {_those(known)}")
    had = [_held_back(spec, tool) for tool in tools if spec.tools == "*" or tool.name in spec.tools]
    may = tuple(tool for tool in had if tool.name not in forbidden)
    if restrict is None:
        return may
    names = {tool.name for tool in had}
    for name in restrict:
        if name not in known:
            raise ToolNotFound(f"There is no tool {name[:64]!r}; {_those(known)}")
        if name not in names:
            raise ToolNotAllowed(f"Agent {spec.name} does not have the tool {name!r}; it has {_listed(names)}")
        if name in forbidden:
            raise ToolForbidden(f"The tool {name!r} needs a right that you do not have")
    return tuple(tool for tool in may if tool.name in restrict)


def _held_back(spec: AgentSpec, tool: ToolSpec) -> ToolSpec:
    """The tool as this agent has it: an agent may ask for more approval, never for less."""
    if tool.needs_approval or (spec.approval != "*" and tool.name not in spec.approval):
        return tool
    return replace(tool, needs_approval=True)


def permitted(tool: ToolSpec, scope: Scope) -> bool:
    """Whether the caller has the right that the tool needs. Administrators have every right."""
    return tool.permission is None or tool.permission in scope.rights or scope.is_admin


def _those(names: Collection[str]) -> str:
    return f"those that exist are {_listed(names)}"


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"
