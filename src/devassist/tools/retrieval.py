"""What a search tool hands over to the record of its run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from devassist.core.scope import Scope
from devassist.ports.library import Answered, Question


def retrieval_of(scope: Scope, question: Question, answered: Answered) -> Mapping[str, Any]:
    """The library's own record, with the question, the labels that the caller had (null: all), and what a citation
    shows of each clause: everything that is needed to say later who could see what, and why. No texts."""
    record = answered.record()
    hits = [
        {
            **kept, "label": hit.label, "heading": hit.heading, "effective_date": hit.effective_date,
            "effective_basis": hit.effective_basis, "revision_date": hit.revision_date,
        }
        for kept, hit in zip(record["hits"], answered.hits, strict=True)
    ]  # fmt: skip
    labels = scope.sees
    return {
        **record, "hits": hits, "question": asdict(question), "labels": None if labels is None else sorted(labels),
        "share": round(answered.share, 6),
    }  # fmt: skip
