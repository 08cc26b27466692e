"""Refusals on record: how often whom what was refused, by the minute, as facts of the stream ``access``/``refusals``.

Counting is a dictionary's work and happens when the response is gone. Whether an id that was not found is somebody
else's is looked up with the minute's end, so that no answer, and no answer after it, takes longer for a foreign one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from ipaddress import IPv6Address, ip_address, ip_network
from time import time
from typing import Any, NamedTuple

from starlette.types import Scope as RequestScope

from devassist.api.auth import CALLER
from devassist.api.problems import CODE
from devassist.core.errors import ConversationNotFound, DevAssistError, RunNotFound
from devassist.core.event_codec import encode
from devassist.core.scope import TENANT, Scope
from devassist.core.signals import Fact
from devassist.ports.decision_log import LogQuery
from devassist.ports.journal import Body
from devassist.runtime.services import Services

log = logging.getLogger("devassist.api")

STREAM = "refusals"
COUNTED = frozenset({401, 403, 404})
ASKED = "devassist.asked"
"""Where a request's ASGI scope has a trace id that it named other than in its path."""
MOST = 200
"""Distinct counters a minute; what is beyond them is counted together, and so are ids that are to be looked up."""
OTHER, UNCHECKED = "other", "unchecked"
_MINUTE_S = 60
_CLOSE_S = 5
_NOBODY = bytes(16)
_HIDDEN = frozenset({RunNotFound.code, ConversationNotFound.code})
_LONGEST = 64
"""Characters of an id that can be somebody's."""


class Bucket(NamedTuple):
    """``who``: a user's name, or ``@`` and an address; no user's name begins so."""

    tenant: str
    who: str
    code: str
    minute: int


class _Asked(NamedTuple):
    tenant: str
    who: str
    minute: int
    what: str
    name: str


class Refusals:
    """``start`` in the serving loop, ``close`` before the services are closed."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._counts: Counter[Bucket] = Counter()
        self._asked: Counter[_Asked] = Counter()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="refusals")

    async def close(self) -> None:
        """Write what was counted. Idempotent."""
        task, self._task = self._task, None
        if task is None:
            return
        self._closing.set()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await task
        except TimeoutError:
            log.warning("refusals of the last minute could not be written in time")

    def note(self, request: RequestScope, status: int) -> None:
        """Count a request that was answered with one of ``COUNTED``."""
        caller: Scope | None = request.get(CALLER)
        minute = int(time()) // _MINUTE_S
        if status != 404:
            tenant, who = (TENANT, f"@{network(request)}") if caller is None else (caller.tenant, caller.actor)
            self._count(Bucket(tenant, who, request.get(CODE, str(status)), minute))
        elif caller is not None and not caller.is_admin and request.get(CODE) in _HIDDEN:
            self._ask(caller, request, minute)

    def _count(self, bucket: Bucket, times: int = 1) -> None:
        known = bucket in self._counts or len(self._counts) < MOST
        self._counts[bucket if known else Bucket(bucket.tenant, "", OTHER, bucket.minute)] += times

    def _ask(self, caller: Scope, request: RequestScope, minute: int) -> None:
        params: dict[str, Any] = request.get("path_params") or {}
        name = params.get("trace_id") or request.get(ASKED)
        what = "run" if name is not None else "conversation"
        name = name or params.get("conversation_id")
        if name is None or len(name) > _LONGEST:
            return
        asked = _Asked(caller.tenant, caller.actor, minute, what, name)
        if asked in self._asked or len(self._asked) < MOST:
            self._asked[asked] += 1
        else:
            self._count(Bucket(caller.tenant, caller.actor, UNCHECKED, minute))

    # -- writing -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._closing.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_MINUTE_S - time() % _MINUTE_S):
                    await self._closing.wait()
            try:
                await self.flush()
            except Exception:  # the next minute is counted all the same
                log.exception("refusals could not be written")

    async def flush(self) -> None:
        """Append what was counted; what cannot be appended is said in the log and dropped."""
        asked, self._asked = self._asked, Counter()
        for one, times in asked.items():
            try:
                if await self._is_foreign(one):
                    self._count(Bucket(one.tenant, one.who, "not_yours", one.minute), times)
            except DevAssistError as error:
                log.warning("a refused id could not be looked up: %s", error.detail)
        counts, self._counts = self._counts, Counter()
        try:
            for tenant in {bucket.tenant for bucket in counts}:
                await self._append(tenant, {b: n for b, n in counts.items() if b.tenant == tenant})
        except DevAssistError:
            log.exception("%d refusals could not be written", counts.total())

    async def _is_foreign(self, one: _Asked) -> bool:
        s, scope = self._services, Scope(one.tenant, STREAM, frozenset({"admin"}))
        if one.what == "conversation":
            page = await s.log.query(scope, LogQuery(conversation_id=one.name, limit=1))
            return any(row["user_id"] != one.who for row in page.rows)
        try:
            head = await s.heads.head(scope, bytes.fromhex(one.name))
        except (RunNotFound, ValueError):
            return False
        return head.kind == "run" and head.actor != await s.vault.find(scope, "user", one.who)

    async def _append(self, tenant: str, counts: dict[Bucket, int]) -> None:
        s, scope = self._services, Scope(tenant, STREAM, frozenset({"admin"}))
        bodies: list[Body] = []
        for bucket, times in counts.items():
            actor = await s.vault.domain(scope, "user", bucket.who) if bucket.who else _NOBODY
            about = (("code", bucket.code), ("count", str(times)), ("minute_ms", str(bucket.minute * _MINUTE_S * 1000)))
            fact = Fact("refused", actor.hex(), about)
            bodies.append(Body(fact.kind, encode(fact), fact))
        await s.journal.note(scope, "access", STREAM, bodies, int(time() * 1_000_000))


def network(request: RequestScope) -> str:
    """Where a request comes from: an IPv4 address, or the network of 64 bits that an IPv6 address is one of."""
    client = request.get("client")
    try:
        address = ip_address(client[0] if client else "")
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address) and not address.is_loopback:
        return str(address.ipv4_mapped or ip_network((int(address), 64), strict=False))
    return str(address)
