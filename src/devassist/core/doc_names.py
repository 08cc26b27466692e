"""Names that people give documents, collections and labels, and what is allowed in them (pure)."""

from __future__ import annotations

import re

COLLECTION = r"^[a-z0-9][a-z0-9_-]{2,62}$"
DOC_ID = r"^[a-z0-9][a-z0-9._-]{2,80}$"
LABEL = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
RESERVED = frozenset({"agent_memory"})
"""Collections that are not for documents."""
MOST_LABELS = 20
_LONGEST_NAME = 400


def collection_fault(name: str) -> str | None:
    """What is wrong with the name of a collection, None when nothing is."""
    if re.fullmatch(COLLECTION, name) is None:
        return "a collection has 3 to 63 lower-case letters, digits, '_' or '-', the first a letter or digit"
    return f"the collection {name} is not for documents" if name in RESERVED else None


def doc_id_fault(doc_id: str) -> str | None:
    if re.fullmatch(DOC_ID, doc_id) is None:
        return "a document id has 3 to 81 lower-case letters, digits, '.', '_' or '-', the first a letter or digit"
    return None


def label_fault(label: str) -> str | None:
    if re.fullmatch(LABEL, label) is None:
        return "a label has 1 to 64 letters, digits, '_', '.' or '-', the first a letter or digit"
    return None


def file_name_fault(name: str) -> str | None:
    """Of a file's name as ingestion keeps it: a relative path with ``/``."""
    parts = name.split("/")
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        return f"a file's name has 1 to {_LONGEST_NAME} printable characters"
    if any(part in ("", ".", "..") for part in parts) or "\\" in name:
        return "a file's name is a relative path such as rules/leave.md"
    return None
