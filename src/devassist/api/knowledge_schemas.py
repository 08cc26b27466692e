"""What requests about knowledge may hold: bodies, and the parameters of an upload."""

from __future__ import annotations

from datetime import date
from typing import Literal

from devassist.api.schemas import Strict
from devassist.core.doc_names import MOST_LABELS, collection_fault, doc_id_fault, file_name_fault, label_fault
from devassist.core.errors import InvalidRequest
from devassist.ports.curation import Given

Kind = Literal["law", "regulation", "judicial_interpretation", "policy", "faq", "devdoc", "other"]


class RepealRequest(Strict):
    """Body of ``POST /knowledge/documents/{doc_id}/repeal``: the first day on which no revision holds any more."""

    day: date


def given(
    name: str, collection: str, doc_id: str | None, title: str | None, kind: Kind | None, effective: date | None,
    valid_to: date | None, issuer: str | None, url: str | None, labels: list[str],
) -> Given:  # fmt: skip
    """Raises InvalidRequest naming every parameter that is wrong."""
    wrong: list[tuple[str, str]] = []

    def check(parameter: str, fault: str | None) -> None:
        if fault is not None:
            wrong.append((f"/query/{parameter}", fault))

    check("name", file_name_fault(name))
    check("collection", collection_fault(collection))
    if doc_id is not None:
        check("doc_id", doc_id_fault(doc_id))
    for label in labels[: MOST_LABELS + 1]:
        check("label", label_fault(label))
    if len(labels) > MOST_LABELS:
        check("label", f"a document has at most {MOST_LABELS} labels")
    if effective is not None and valid_to is not None and valid_to <= effective:
        check("valid_to", "must be later than effective")
    if wrong:
        raise InvalidRequest("; ".join(fault for _, fault in wrong), errors=tuple(wrong))
    return Given(
        collection, doc_id, title, kind, None if effective is None else effective.isoformat(),
        None if valid_to is None else valid_to.isoformat(), issuer, url, tuple(sorted(set(labels))),
    )  # fmt: skip
