"""Prometheus metrics, counted from appended events: replaying a journal counts nothing twice and logs nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from devassist.core.breaker import Breaker
from devassist.core.events import (
    Event,
    ModelFailed,
    ModelReplied,
    ModelSwitched,
    RunFailed,
    RunFinished,
    RunStarted,
    ToolReturned,
)
from devassist.observability.knowledge_metrics import KnowledgeCollector
from devassist.observability.sandbox_metrics import SandboxCollector
from devassist.ports.journal import Record
from devassist.ports.metrics import KnowledgeState

_BREAKER = {"closed": 0, "half_open": 1, "open": 2}
_ENDS = {"run_finished": "succeeded", "run_failed": "failed", "run_aborted": "cancelled"}
_Sums = dict[tuple[Counter, str], int]
"""What a batch adds to each counter's label: looking labels up is dear, so it happens once a batch."""
_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class PrometheusMetrics:
    """A follower (counts from ``cursor`` on) and the port that the API shows. ``breakers`` tells how each endpoint's
    breaker stands, ``sandbox`` what the sandbox has counted, ``searched`` how often which arm of search did what."""

    def __init__(
        self, cursor: int, open_runs: int = 0, breakers: Callable[[], Mapping[str, Breaker]] = dict,
        sandbox: Callable[[], Mapping[str, int]] = dict, searched: Callable[[], Mapping[tuple[str, str], int]] = dict,
    ) -> None:  # fmt: skip
        self.cursor = cursor
        self._breakers = breakers
        disable_created_metrics()
        self._registry = r = CollectorRegistry()
        self._started = Counter("devassist_runs_started", "Runs begun", ["agent"], registry=r)
        self._ended = Counter("devassist_runs_ended", "Runs ended", ["status"], registry=r)
        self._open = Gauge("devassist_runs_open", "Runs that have not ended", registry=r)
        self._open.set(open_runs)
        self._errors = Counter("devassist_run_errors", "Failed runs by code", ["code"], registry=r)
        self._calls = Counter("devassist_model_attempts", "Model attempts by outcome", ["outcome"], registry=r)
        self._failures = Counter("devassist_model_failures", "Failed attempts by code", ["code"], registry=r)
        self._switches = Counter("devassist_model_switches", "Switches to a fallback model", ["reason"], registry=r)
        self._marked = Counter("devassist_answers_degraded", "Answers marked as degraded", ["code"], registry=r)
        self._breaker = Gauge("devassist_breaker_state", "0 closed, 1 half open, 2 open", ["endpoint"], registry=r)
        self._model_s = Histogram("devassist_model_seconds", "Model attempts", buckets=_SECONDS, registry=r)
        self._tokens = Counter("devassist_model_tokens", "Tokens that providers counted", ["direction"], registry=r)
        self._faults = Counter("devassist_reply_faults", "Replies sent back as corrections", ["code"], registry=r)
        self._tools = Counter("devassist_tool_attempts", "Tool attempts by outcome", ["outcome"], registry=r)
        self._tool_s = Histogram("devassist_tool_seconds", "Tool attempts", buckets=_SECONDS, registry=r)
        self._events = Counter("devassist_journal_events", "Events appended", ["kind"], registry=r)
        r.register(SandboxCollector(sandbox))
        self._knowledge = KnowledgeCollector(searched)
        r.register(self._knowledge)
        self._http = Histogram(
            "http_server_request_duration_seconds", "HTTP requests", ["http_route", "http_request_method",
            "http_response_status_code"], buckets=_SECONDS, registry=r,
        )  # fmt: skip

    def render(self) -> tuple[bytes, str]:
        for endpoint, breaker in self._breakers().items():
            self._breaker.labels(endpoint).set(_BREAKER[breaker.value])
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def knowledge(self, state: KnowledgeState) -> None:
        self._knowledge.state = state

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        self._http.labels(route, method, str(status)).observe(seconds)

    async def handle(self, records: Sequence[Record]) -> None:
        sums: _Sums = defaultdict(int)
        for record in records:
            sums[self._events, record.kind] += 1
            if record.kind in _READ:
                self._count(record.decoded(), sums)
            elif record.kind in _ENDS:
                self._end(record.kind, sums)
        for (counter, label), n in sums.items():
            counter.labels(label).inc(n)

    def _end(self, kind: str, sums: _Sums) -> None:
        sums[self._ended, _ENDS[kind]] += 1
        self._open.dec()

    def _count(self, event: Event, sums: _Sums) -> None:
        match event:
            case RunStarted():
                sums[self._started, event.agent] += 1
                self._open.inc()
            case RunFailed():
                sums[self._errors, event.code] += 1
                self._end(event.kind, sums)
            case ModelReplied():
                sums[self._calls, event.decision] += 1
                self._model_s.observe(event.took / 1e6)
                sums[self._tokens, "input"] += event.input_tokens
                sums[self._tokens, "output"] += event.output_tokens
                if event.code is not None:
                    sums[self._faults, event.code] += 1
            case ModelFailed():
                sums[self._calls, "failed"] += 1
                sums[self._failures, event.code] += 1
            case ModelSwitched():
                sums[self._switches, event.reason] += 1
            case RunFinished():
                for code in event.degraded:
                    sums[self._marked, code] += 1
                self._end(event.kind, sums)
            case ToolReturned():
                sums[self._tools, event.outcome] += 1
                self._tool_s.observe(event.took / 1e6)
            case _:
                pass


_READ = frozenset(
    {"run_started", "run_failed", "run_finished", "model_replied", "model_failed", "model_switched", "tool_returned"}
)
