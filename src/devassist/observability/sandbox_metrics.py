"""What the sandbox counts by itself, as Prometheus metrics: asked for whenever they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

_REASONS = {"timeout": "timeouts", "output": "floods", "memory": "oom", "cancelled": "cancelled"}


class SandboxCollector(Collector):
    """``counted`` gives numbers by the names of ports.sandbox.COUNTED; what it does not name counts as none."""

    def __init__(self, counted: Callable[[], Mapping[str, int]]) -> None:
        self._counted = counted

    def collect(self) -> Iterator[Metric]:
        counts = self._counted()
        programs = CounterMetricFamily("devassist_sandbox_programs", "Programs by how they started", labels=["start"])
        for start in ("warm", "cold"):
            programs.add_metric([start], counts.get(start, 0))
        yield programs
        killed = CounterMetricFamily("devassist_sandbox_killed", "Programs that were killed", labels=["reason"])
        for reason, name in _REASONS.items():
            killed.add_metric([reason], counts.get(name, 0))
        yield killed
        yield _plain("devassist_sandbox_leaks", "Sandboxes that could not be removed", counts.get("leaks", 0))
        yield _plain("devassist_sandbox_swept", "Leftovers of dead processes, removed", counts.get("swept", 0))
        waited_s = counts.get("waited_us", 0) / 1e6
        yield _plain("devassist_sandbox_wait_seconds", "Time that programs waited for their turn", waited_s)


def _plain(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(name, about, value=value)
