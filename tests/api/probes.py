"""Requests that name something by its id, made from the OpenAPI document so that no route is forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TRACE, CONVERSATION = "trace_id", "conversation_id"
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/runs/{trace_id}/approvals/{digest}"): {"decision": "approve"},
    ("POST", "/runs/{trace_id}/steps/{step_index}/settle"): {"outcome": "abandon"},
}
"""What a route reads that would refuse the request without it. A new one that is not named here fails the tests."""


@dataclass(frozen=True)
class Probe:
    verb: str
    path: str
    body: dict[str, Any] | None

    @property
    def about(self) -> str:
        return CONVERSATION if f"{{{CONVERSATION}}}" in self.path else TRACE

    def to(self, **ids: str) -> str:
        return self.path.format(**ids)


def probes(document: dict[str, Any]) -> list[Probe]:
    """Every operation with the id of a run or conversation in its path, but for administrators' ones, which refuse
    others before they look."""
    found: list[Probe] = []
    for path, operations in document["paths"].items():
        if not any(f"{{{name}}}" in path for name in (TRACE, CONVERSATION)) or path.startswith("/admin/"):
            continue
        for verb, operation in operations.items():
            body = BODIES.get((verb.upper(), path))
            assert body is not None or "requestBody" not in operation, f"say in BODIES what {verb} {path} reads"
            found.append(Probe(verb.upper(), path, body))
    return found
