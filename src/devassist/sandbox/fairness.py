"""Who may run next: a limit per user and in all, and a queue that lets nobody wait behind another's crowd.

``FairQueue`` decides and is pure; ``Gate`` lets coroutines wait by it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from devassist.core.errors import Overloaded


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many may run and wait, in all and of one user. All are at least 1, but nobody need be let wait."""

    running: int = 4
    running_each: int = 2
    waiting: int = 200
    waiting_each: int = 50


T = TypeVar("T")


@dataclass(slots=True)
class _User(Generic[T]):
    running: int
    waiting: deque[T]


class FairQueue(Generic[T]):
    """Tickets (any objects, compared by identity) of users. Free places go to the waiting user who has the fewest
    running, among equals to the one who was served, or came, longest ago; one user's tickets keep their order."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._users: OrderedDict[Hashable, _User[T]] = OrderedDict()  # who came or was served last stands last
        self.running = 0
        self.waiting = 0

    def offer(self, user: Hashable, ticket: T) -> bool:
        """Whether the ticket may run at once; otherwise it waits until ``release`` or ``withdraw`` names it.

        Raises Overloaded where too many wait already.
        """
        mine = self._users.get(user) or _User[T](0, deque())
        if not mine.waiting and mine.running < self._bounds.running_each and self.running < self._bounds.running:
            self._users[user] = mine
            self._start(user, mine)
            return True
        if len(mine.waiting) >= self._bounds.waiting_each:
            raise Overloaded(f"{len(mine.waiting)} programs of this user wait for their turn already")
        if self.waiting >= self._bounds.waiting:
            raise Overloaded(f"{self.waiting} programs wait for their turn already")
        self._users[user] = mine
        mine.waiting.append(ticket)
        self.waiting += 1
        return False

    def release(self, user: Hashable) -> list[T]:
        """One of the user's has ended: the tickets whose turn it is now."""
        mine = self._users[user]
        mine.running -= 1
        self.running -= 1
        self._users.move_to_end(user)
        self._forget(user, mine)
        return self._next()

    def withdraw(self, user: Hashable, ticket: T) -> None:
        """A waiting ticket is not wanted any more."""
        mine = self._users[user]
        mine.waiting = deque(one for one in mine.waiting if one is not ticket)
        self.waiting = sum(len(one.waiting) for one in self._users.values())
        self._forget(user, mine)

    def _next(self) -> list[T]:
        turns: list[T] = []
        while self.running < self._bounds.running:
            able = [
                (one.running, place, user)
                for place, (user, one) in enumerate(self._users.items())
                if one.waiting and one.running < self._bounds.running_each
            ]
            if not able:
                break
            user = min(able, key=lambda row: row[:2])[2]
            mine = self._users[user]
            turns.append(mine.waiting.popleft())
            self.waiting -= 1
            self._start(user, mine)
        return turns

    def _start(self, user: Hashable, mine: _User[T]) -> None:
        mine.running += 1
        self.running += 1
        self._users.move_to_end(user)

    def _forget(self, user: Hashable, mine: _User[T]) -> None:
        if not mine.running and not mine.waiting:
            del self._users[user]


class Gate:
    """Coroutines taking turns by a FairQueue. Of one event loop."""

    def __init__(self, bounds: Bounds) -> None:
        self.queue = FairQueue[asyncio.Future[None]](bounds)

    @asynccontextmanager
    async def turn(self, user: Hashable) -> AsyncGenerator[None]:
        """Wait for a turn of the user, and hold it. Raises Overloaded."""
        ticket: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.queue.offer(user, ticket):
            try:
                await asyncio.shield(ticket)  # so that only `_pass_on` settles it
            except asyncio.CancelledError:
                if ticket.done():
                    self._pass_on(user)  # the turn came in the moment in which it was given up
                else:
                    self.queue.withdraw(user, ticket)
                raise
        try:
            yield
        finally:
            self._pass_on(user)

    def _pass_on(self, user: Hashable) -> None:
        for ticket in self.queue.release(user):
            ticket.set_result(None)
