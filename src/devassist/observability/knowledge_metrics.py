"""What there is of knowledge and how it is searched, as Prometheus metrics: told right before they are shown, and
counted by the library itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from devassist.ports.metrics import KnowledgeState


class KnowledgeCollector(Collector):
    """``searched`` gives how often each arm took part in a search, by ``(arm, outcome)``."""

    def __init__(self, searched: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        self._searched = searched
        self.state = KnowledgeState()

    def collect(self) -> Iterator[Metric]:
        held = self.state.collections
        for name, about, place in (
            ("devassist_knowledge_documents", "Documents that are believed", 0),
            ("devassist_knowledge_clauses", "Clauses that are believed", 1),
        ):
            family = GaugeMetricFamily(name, about, labels=["collection"])
            for collection, numbers in held.items():
                family.add_metric([collection], numbers[place])
            yield family
        yield _plain("devassist_knowledge_quarantined", "Files that became no document", self.state.quarantined)
        lag, waiting = self.state.index_lag, self.state.index_waiting
        yield _plain("devassist_knowledge_index_lag", "Changes that the vector index has not seen", lag)
        yield _plain("devassist_knowledge_index_waiting", "Texts that wait for their vectors", waiting)
        arms = CounterMetricFamily(
            "devassist_knowledge_searches", "Searches by arm and what it did", labels=["arm", "outcome"]
        )
        for (arm, outcome), number in sorted(self._searched().items()):
            arms.add_metric([arm, outcome], number)
        yield arms


def _plain(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)
