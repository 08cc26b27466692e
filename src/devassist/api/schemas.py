"""The bodies of the HTTP API."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from devassist.runtime.intake import Submission

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Strict(BaseModel):
    """Nothing is coerced (``"yes"`` is no bool) and nothing unknown is passed over."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Message(Strict):
    role: Literal["user", "assistant"]
    content: Annotated[str, Field(max_length=32_000)]


class ChatRequest(Strict):
    """Body of ``POST /chat`` and ``POST /agent``."""

    message: Annotated[str, Field(min_length=1, max_length=32_000)]
    conversation_id: Name | None = None
    history: Annotated[list[Message], Field(max_length=200)] = []
    agent: Annotated[str, Field(max_length=64)] | None = None
    tools: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=64)] | None = None
    use_agent: bool | None = None
    use_rag: bool | None = None
    collection_name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{2,62}$")] | None = None
    as_of: date | None = None
    known_at: datetime | None = None
    subject: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    replaces: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None

    def submission(self) -> Submission:
        return Submission(
            message=self.message, conversation_id=self.conversation_id,
            history=tuple((m.role, m.content) for m in self.history), agent=self.agent,
            tools=None if self.tools is None else tuple(self.tools), use_agent=self.use_agent, use_rag=self.use_rag,
            collection_name=self.collection_name, as_of=self.as_of.isoformat() if self.as_of else None,
            known_at=_moment(self.known_at) if self.known_at else None, subject=self.subject, replaces=self.replaces,
        )  # fmt: skip


def _moment(given: datetime) -> str:
    """A time without an offset is UTC."""
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).isoformat()


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str | None = None
    trace_id: str | None = None
    errors: list[dict[str, str]] | None = None


class Answer(BaseModel):
    """What a run came to, or where it stands."""

    trace_id: str
    conversation_id: str
    status: Literal["succeeded", "failed", "cancelled", "awaiting_approval", "waiting", "running"]
    answer: str | None
    output: dict[str, Any] | None
    steps: list[dict[str, Any]]
    usage: dict[str, Any]
    error: Problem | None
    pending: list[dict[str, Any]]
    degraded: list[dict[str, str]]
    meta: dict[str, Any]


class Citations(BaseModel):
    """The verdicts of a run's citations. ``rule`` is null where none were checked; ``removed`` counts sentences that
    were left out of the answer. ``changed`` of a citation is ``{state, rev_id, day}``, null where it is not known."""

    trace_id: str
    rule: str | None
    citations: list[dict[str, Any]]
    removed: int
    verdicts: list[str]
