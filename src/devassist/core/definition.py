"""The two payloads of INIT: the resolved definition (public) and the request (in the run's domain)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal

from devassist.core.codec import json_text
from devassist.core.errors import JournalCorrupt
from devassist.core.event_parts import Limits, OnUnknown, Release
from devassist.core.scope import Right, Scope
from devassist.core.tooling import ToolSpec

_EPOCH = datetime.fromtimestamp(0, UTC)
Lang = Literal["zh", "en"]
Route = Literal["agent", "rag", "chat"]
Citations = Literal["quoted", "numbered"]
Unsupported = Literal["flag", "remove"]


@dataclass(frozen=True, slots=True)
class Definition:
    """Everything that decides how a run behaves, resolved once: resuming uses this, never today's files.

    ``system`` is the whole system message as the model sees it. ``max_reply_tokens`` 0 leaves it to the provider.
    ``context_tokens`` bounds the prompt. ``grounded``: answers only from what its knowledge tool returned.
    ``fallbacks`` name, in order, the models to go to when its own fails. ``evidence``: answers show what came
    of the last program that was run. ``citations``: how a grounded agent names its sources, by title and label beside
    each quotation or by [n]; ``unsupported``: what becomes of its sentences that nothing supports.
    """

    agent: str
    system: str
    prompt_version: str
    lang: Lang
    tools: tuple[ToolSpec, ...]
    model: str
    model_kind: str
    limits: Limits
    protocol: Literal["text", "tools"] = "text"
    release: Release = "live"
    on_unknown: OnUnknown = "hold"
    parallel: bool = False
    grounded: bool = False
    max_reply_tokens: int = 0
    context_tokens: int = 16_000
    fallbacks: tuple[str, ...] = ()
    evidence: bool = False
    citations: Citations = "quoted"
    unsupported: Unsupported = "flag"

    def to_json(self) -> str:
        """Deterministic JSON: equal definitions are equal texts, so they are stored once."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data["tools"] = [asdict(t) for t in self.tools]
        if not self.fallbacks:
            del data["fallbacks"]
        if not self.evidence:
            del data["evidence"]
        if self.citations == "quoted":
            del data["citations"]
        if self.unsupported == "flag":
            del data["unsupported"]
        return json_text(data)

    @staticmethod
    @lru_cache(maxsize=64)
    def from_json(text: str) -> Definition:
        """Kept, since few definitions are in use at a time and reading one costs more than folding a run. Raises
        JournalCorrupt when the text is not a definition."""
        try:
            data: dict[str, Any] = json.loads(text)
            data["tools"] = tuple(ToolSpec(**t) for t in data["tools"])
            data["limits"] = Limits(*data["limits"])
            data["fallbacks"] = tuple(data.get("fallbacks", ()))
            return Definition(**data)
        except (ValueError, TypeError, KeyError) as error:
            raise JournalCorrupt(f"not a definition: {error}") from None

    def spec(self, name: str) -> ToolSpec | None:
        for tool in self.tools:
            if tool.name == name:
                return tool
        return None


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked, apart from the message itself. ``history`` is used only without a conversation_id.

    ``labels`` and ``admin`` are what the caller had at intake: a run looks things up with these rights to its end, also
    when another process resumes it. Where they are not recorded it has none.
    """

    user: str
    route: Route
    route_reason: str
    rag: bool = False
    subject: str | None = None
    as_of: str | None = None
    known_at: str | None = None
    collection: str | None = None
    tools: tuple[str, ...] | None = None
    history: tuple[tuple[str, str], ...] = field(default=())
    labels: tuple[str, ...] = ()
    admin: bool = False

    def caller(self, tenant: str) -> Scope:
        """In whose name the run's tools act."""
        rights: frozenset[Right] = frozenset({"user", "admin"} if self.admin else {"user"})
        return Scope(tenant, self.user, rights, frozenset(self.labels))

    @property
    def known_at_us(self) -> int | None:
        """``known_at`` in microseconds since the epoch."""
        if self.known_at is None:
            return None
        return (datetime.fromisoformat(self.known_at) - _EPOCH) // timedelta(microseconds=1)

    def to_json(self) -> str:
        return json_text({f.name: v for f in fields(self) if (v := getattr(self, f.name)) != f.default})

    @staticmethod
    def from_json(text: str) -> Request:
        """Raises JournalCorrupt when the text is not a request."""
        try:
            data: dict[str, Any] = json.loads(text)
            if data.get("tools") is not None:
                data["tools"] = tuple(data["tools"])
            data["labels"] = tuple(str(label) for label in data.get("labels", ()))
            data["history"] = tuple((str(r), str(c)) for r, c in data.get("history", ()))
            return Request(**data)
        except (ValueError, TypeError, AttributeError) as error:
            raise JournalCorrupt(f"not a request: {error}") from None
