"""Prometheus metrics, counted from appended events: replaying a journal counts nothing twice and logs nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from devassist.core.event_codec import decode
from devassist.core.events import Event, ModelFailed, ModelReplied, RunFailed, RunStarted, ToolReturned
from devassist.ports.journal import Record

_ENDS = {"run_finished": "succeeded", "run_failed": "failed", "run_aborted": "cancelled"}
_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class PrometheusMetrics:
    """A follower (counts from ``cursor`` on) and the port that the API shows."""

    def __init__(self, cursor: int) -> None:
        self.cursor = cursor
        disable_created_metrics()
        self._registry = r = CollectorRegistry()
        self._started = Counter("devassist_runs_started", "Runs begun", ["agent"], registry=r)
        self._ended = Counter("devassist_runs_ended", "Runs ended", ["status"], registry=r)
        self._open = Gauge("devassist_runs_open", "Runs begun less runs ended, since the start", registry=r)
        self._errors = Counter("devassist_run_errors", "Failed runs by code", ["code"], registry=r)
        self._calls = Counter("devassist_model_attempts", "Model attempts by outcome", ["outcome"], registry=r)
        self._model_s = Histogram("devassist_model_seconds", "Model attempts", buckets=_SECONDS, registry=r)
        self._tokens = Counter("devassist_model_tokens", "Tokens that providers counted", ["direction"], registry=r)
        self._faults = Counter("devassist_reply_faults", "Replies sent back as corrections", ["code"], registry=r)
        self._tools = Counter("devassist_tool_attempts", "Tool attempts by outcome", ["outcome"], registry=r)
        self._tool_s = Histogram("devassist_tool_seconds", "Tool attempts", buckets=_SECONDS, registry=r)
        self._events = Counter("devassist_journal_events", "Events appended", ["kind"], registry=r)
        self._http = Histogram(
            "http_server_request_duration_seconds", "HTTP requests", ["http_route", "http_request_method",
            "http_response_status_code"], buckets=_SECONDS, registry=r,
        )  # fmt: skip

    def render(self) -> tuple[bytes, str]:
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        self._http.labels(route, method, str(status)).observe(seconds)

    async def handle(self, records: Sequence[Record]) -> None:
        counts: dict[str, int] = {}
        for record in records:
            counts[record.kind] = counts.get(record.kind, 0) + 1
            if record.kind in _READ:
                self._count(record.event or decode(json.loads(record.body)))
        for kind, n in counts.items():
            self._events.labels(kind).inc(n)
            if kind in _ENDS:
                self._ended.labels(_ENDS[kind]).inc(n)
                self._open.dec(n)

    def _count(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._started.labels(event.agent).inc()
                self._open.inc()
            case RunFailed():
                self._errors.labels(event.code).inc()
            case ModelReplied():
                self._calls.labels(event.decision).inc()
                self._model_s.observe(event.took / 1e6)
                self._tokens.labels("input").inc(event.input_tokens)
                self._tokens.labels("output").inc(event.output_tokens)
                if event.code is not None:
                    self._faults.labels(event.code).inc()
            case ModelFailed():
                self._calls.labels("failed").inc()
            case ToolReturned():
                self._tools.labels(event.outcome).inc()
                self._tool_s.observe(event.took / 1e6)
            case _:
                pass


_READ = frozenset({"run_started", "run_failed", "model_replied", "model_failed", "tool_returned"})
