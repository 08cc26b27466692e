"""From what a caller asked to a run that can begin: route, agent, tools, resolved definition.

Used by the HTTP API and by the command line alike, so both resolve the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from devassist.core.agents import Protocol, permitted, resolve
from devassist.core.codec import json_text
from devassist.core.definition import Definition, Request
from devassist.core.errors import CollectionNotFound, ConversationNotFound, InvalidRequest, RunNotFound
from devassist.core.event_parts import Limits
from devassist.core.react import protocol_instructions
from devassist.core.routing import DEV, RAG, RouteDecision, is_one_block, kind_of, lang_of, route
from devassist.core.scope import Scope
from devassist.core.states import CLOSED
from devassist.ports.agents import AgentCatalog
from devassist.ports.journal import Heads
from devassist.ports.library import DOCS, POLICIES, RELEVANCE_THRESHOLD, Library
from devassist.ports.model import Model
from devassist.ports.tools import ToolBox
from devassist.ports.vault import Vault
from devassist.runtime.ownership import own_domain
from devassist.runtime.starting import StartRun

_CLOSED = frozenset(str(s) for s in CLOSED)
_RESERVED = "agent_memory"


@dataclass(frozen=True, slots=True)
class Submission:
    """A checked request body; names and meaning as in the API."""

    message: str
    conversation_id: str | None = None
    history: tuple[tuple[str, str], ...] = ()
    agent: str | None = None
    tools: tuple[str, ...] | None = None
    use_agent: bool | None = None
    use_rag: bool | None = None
    collection_name: str | None = None
    as_of: str | None = None
    known_at: str | None = None
    subject: str | None = None
    replaces: str | None = None


class Intake:
    """``models`` maps an agent file's ``model`` word (agent, chat) to the model that is configured for it;
    ``fallbacks`` name those to go to when it fails."""

    def __init__(
        self, catalog: AgentCatalog, tools: ToolBox, library: Library, heads: Heads, vault: Vault,
        models: Mapping[str, Model], extractive: Model, limits: Limits, protocol: Protocol,
        fallbacks: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._catalog, self._tools, self._library, self._heads, self._vault = catalog, tools, library, heads, vault
        self._models, self._extractive = models, extractive
        self._limits, self._fallbacks = limits, fallbacks
        self._protocol: Protocol = protocol
        self._resolved: dict[tuple[Any, ...], Definition] = {}

    async def prepare(
        self, scope: Scope, where: Literal["chat", "agent"], s: Submission, *, key: str | None = None,
        watched: bool = False,
    ) -> StartRun:  # fmt: skip
        """Raises AgentNotFound, ToolNotFound, ToolNotAllowed, ToolForbidden, CollectionNotFound, RunNotFound,
        InvalidRequest."""
        decision = await self._route(scope, where, s)
        lang = lang_of(s.message)
        definition = self._define(scope, decision.agent, lang, s)
        request = Request(
            user=scope.actor, route=decision.route, route_reason=decision.reason, rag=decision.route == "rag",
            subject=s.subject, as_of=s.as_of, known_at=s.known_at, collection=s.collection_name, tools=s.tools,
            history=() if s.conversation_id else s.history, labels=tuple(sorted(scope.labels)), admin=scope.is_admin,
        )  # fmt: skip
        conversation, replaces = await self._place(scope, s)
        return StartRun(
            s.message, definition, request, conversation, replaces,
            idem=f"{where}\0{key}" if key else None, digest=_digest(s) if key else None, watched=watched,
        )  # fmt: skip

    async def _route(self, scope: Scope, where: str, s: Submission) -> RouteDecision:
        if s.collection_name is not None:
            await self._require(scope, s.collection_name)
        if where == "agent":
            name = s.agent or (RAG if s.use_rag else DEV)
            return RouteDecision(
                kind_of(name), name, "POST /agent" if s.agent is None else f"agent: {name}", "explicit"
            )
        policy = docs = 0.0
        if s.agent is None and not s.use_agent and not s.use_rag:
            policy = await self._library.best_score(scope, s.message, POLICIES)
            if policy < RELEVANCE_THRESHOLD and s.use_rag is None:
                docs = await self._library.best_score(scope, s.message, DOCS)
        return route(
            s.message, use_agent=s.use_agent, use_rag=s.use_rag, tools=s.tools, collection=s.collection_name,
            agent=s.agent, best_policy_score=policy, threshold=RELEVANCE_THRESHOLD, best_docs_score=docs,
        )  # fmt: skip

    async def _require(self, scope: Scope, name: str) -> None:
        """The collections that tools look in by themselves may be empty. One that the caller may not see is like one
        that is not there. Raises CollectionNotFound."""
        if name in (POLICIES, DOCS):
            return
        if name == _RESERVED or name not in await self._library.extent(scope):
            raise CollectionNotFound(f"there is no collection {name!r}")

    def _define(self, scope: Scope, agent: str, lang: Literal["zh", "en"], s: Submission) -> Definition:
        code_only = s.tools == ("execute_code",) and is_one_block(s.message)
        everything = self._tools.specs()
        forbidden = tuple(t.name for t in everything if not permitted(t, scope))
        key = (agent, lang, s.tools, code_only, forbidden)
        known = self._resolved.get(key)
        if known is not None:
            return known
        spec = self._catalog.get(agent)
        model = self._extractive if code_only else self._models[spec.model]
        tools = [t for t in everything if spec.tools == "*" or t.name in spec.tools]
        given: Protocol = spec.protocol or self._protocol
        protocol: Protocol = "text" if model.kind == "extractive" else given
        wanted = [t for t in tools if t.name not in forbidden and (s.tools is None or t.name in s.tools)]
        definition = resolve(
            spec, lang=lang, tools=tools, restrict=s.tools, model=model.name, model_kind=model.kind, protocol=protocol,
            limits_default=self._limits, protocol_text=protocol_instructions(lang, wanted),
            all_names=[t.name for t in everything], forbidden=forbidden,
            fallbacks=() if model.kind == "extractive" else self._fallbacks,
        )  # fmt: skip
        if len(self._resolved) >= 200:
            self._resolved.clear()
        self._resolved[key] = definition
        return definition

    async def _place(self, scope: Scope, s: Submission) -> tuple[str | None, bytes | None]:
        """The conversation of the run, and the own closed root run that it takes the place of."""
        if s.replaces is None:
            return s.conversation_id, None
        try:
            stream = bytes.fromhex(s.replaces)
        except ValueError:
            raise InvalidRequest("replaces must be a trace_id: 32 hex digits") from None
        head = await self._heads.head(scope, stream, await own_domain(self._vault, scope))
        if head.root != stream:
            raise RunNotFound(f"run {s.replaces} is another's part, not a message of a conversation")
        if head.state not in _CLOSED:
            raise InvalidRequest("replaces must name a run that has ended", errors=(("/replaces", "the run is open"),))
        if s.conversation_id is not None and s.conversation_id != head.conversation:
            raise ConversationNotFound(f"run {s.replaces} is not of conversation {s.conversation_id!r}")
        return head.conversation, stream


def _digest(s: Submission) -> str:
    """What the same Idempotency-Key must come with."""
    fields = {name: getattr(s, name) for name in Submission.__slots__}
    return sha256(json_text(fields).encode()).hexdigest()
