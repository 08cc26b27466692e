"""The runs that this process owns, and until when: by CLOCK_BOOTTIME, which neither a set clock nor a sleeping host
stops. A lease that could not be renewed in time may be another's already, so what is done under it has to end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from devassist.ports.clock import Clock


class Lease(NamedTuple):
    epoch: int
    ends: int


class Leases:
    """``lease_us`` is how long a claim or renewal holds. Times are microseconds of CLOCK_BOOTTIME."""

    def __init__(self, clock: Clock, lease_us: int) -> None:
        self._clock, self._lease_us = clock, lease_us
        self._held: dict[bytes, Lease] = {}

    def from_now(self) -> int:
        """When a lease ends that is asked for now: taken before it is asked for, so never later than the store says."""
        return self._clock.boottime_us() + self._lease_us

    def hold(self, stream: bytes, epoch: int, ends: int) -> None:
        self._held[stream] = Lease(epoch, ends)

    def drop(self, stream: bytes) -> int | None:
        """The epoch of what was held, None where nothing was."""
        lease = self._held.pop(stream, None)
        return None if lease is None else lease.epoch

    def ends(self, stream: bytes) -> int:
        """0 where nothing is held."""
        lease = self._held.get(stream)
        return 0 if lease is None else lease.ends

    def held(self) -> list[tuple[bytes, int]]:
        """(stream, epoch) of all."""
        return [(stream, lease.epoch) for stream, lease in self._held.items()]

    def renewed(self, asked: Iterable[tuple[bytes, int]], lost: Iterable[bytes], ends: int) -> None:
        """What was asked for, but for the lost ones, holds until ``ends``."""
        gone = set(lost)
        for stream, epoch in asked:
            lease = self._held.get(stream)
            if lease is not None and lease.epoch == epoch and stream not in gone:
                self._held[stream] = Lease(epoch, ends)

    def over(self) -> list[bytes]:
        """Those whose time has passed."""
        now = self._clock.boottime_us()
        return [stream for stream, lease in self._held.items() if lease.ends <= now]
