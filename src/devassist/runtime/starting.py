"""From what is to be begun to the INIT that begins it: ids, domains, sealed texts."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from devassist.core.codec import b64, sound, unb64
from devassist.core.definition import Definition, Request
from devassist.core.events import CITE_1, RETRY_2, RETRY_3, RunStarted
from devassist.core.ids import uuid7
from devassist.core.scope import Scope
from devassist.ports.clock import Clock
from devassist.ports.journal import Body, NewRun
from devassist.ports.vault import PUBLIC, Payload, Vault

FLAGS = (RETRY_2, RETRY_3, CITE_1)
"""What runs begin under now."""


@dataclass(frozen=True, slots=True)
class StartRun:
    """What to begin. ``idem`` is the caller's Idempotency-Key bound to its route, ``digest`` that of the request.
    ``watched``: a follower will come, so that deltas are kept for it."""

    message: str
    definition: Definition
    request: Request
    conversation: str | None = None
    replaces: bytes | None = None
    idem: str | None = None
    digest: str | None = None
    watched: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    stream: bytes
    conversation: str
    created: bool
    driven: bool = True


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one process takes on."""

    lease_s: float = 15.0
    max_open: int = 1000
    busy: Literal["queue", "reject"] = "queue"

    @property
    def lease_us(self) -> int:
        return int(self.lease_s * 1_000_000)


class Starter:
    """Prepares runs; remembers the texts of definitions in use."""

    def __init__(self, vault: Vault, clock: Clock, bounds: Bounds) -> None:
        self._vault, self._clock, self._bounds = vault, clock, bounds
        self._newest = b""
        self._definitions: dict[int, tuple[Definition, str, Payload]] = {}

    def _next_id(self, now: int) -> bytes:
        """Ids of this process rise strictly, also within a millisecond: a conversation's turns go by them."""
        new = uuid7(now, self._clock.random(10))
        if new <= self._newest:
            new = (int.from_bytes(self._newest) + 1).to_bytes(16)
        self._newest = new
        return new

    async def prepare(self, scope: Scope, start: StartRun) -> tuple[NewRun, RunStarted, dict[str, str]]:
        actor = await self._vault.domain(scope, "user", scope.actor)
        subject = start.request.subject
        domain = actor if subject is None else await self._vault.domain(scope, "subject", subject)
        # From here to the append nothing is awaited: runs get their ids in the order in which they are begun.
        now = self._clock.now_us()
        stream = self._next_id(now)
        conversation = start.conversation or f"c_{b64(self._clock.random(12))}"
        d = start.definition
        text, definition = self._public(d)
        request_text, message_text = sound(start.request.to_json()), sound(start.message)
        request, message = self._vault.seal(domain, request_text), self._vault.seal(domain, message_text)
        event = RunStarted(
            tenant=scope.tenant, domain=domain.hex(), actor=actor.hex(), agent=d.agent, definition=b64(definition.ref),
            request=b64(request.ref), message=b64(message.ref), conversation=conversation, limits=d.limits,
            protocol=d.protocol, release=d.release, on_unknown=d.on_unknown, parallel=d.parallel, grounded=d.grounded,
            replaces=start.replaces.hex() if start.replaces else None, flags=FLAGS, fallbacks=len(d.fallbacks),
            idem=_digest(start.idem) if start.idem else None,
            # Committed to under the key, or a guess at an erased message could be checked against it.
            digest=b64(self._vault.seal(domain, start.digest).ref) if start.idem and start.digest else None,
        )  # fmt: skip
        texts = {event.definition: text, event.request: request_text, event.message: message_text}
        run = NewRun(
            stream, scope.tenant, actor, conversation, stream, Body.of(event), now,
            payloads=(definition, request, message), idem=unb64(event.idem) if event.idem else None,
            digest=event.digest, flags=",".join(FLAGS), lease_until=now + self._bounds.lease_us, busy=self._bounds.busy,
            max_open=self._bounds.max_open, fresh=start.conversation is None,
        )  # fmt: skip
        return run, event, texts

    def _public(self, definition: Definition) -> tuple[str, Payload]:
        """The definition's text and payload; few are in use at a time, and each is stored once."""
        known = self._definitions.get(id(definition))
        if known is None or known[0] is not definition:
            if len(self._definitions) >= 100:
                self._definitions.clear()
            text = definition.to_json()
            known = self._definitions[id(definition)] = (definition, text, self._vault.seal(PUBLIC, text))
        return known[1:]


def _digest(text: str) -> str:
    return b64(sha256(text.encode()).digest())
