"""SQL lives in .sql files: whole scripts, or files of statements that begin with ``-- name: <name>``."""

from __future__ import annotations

from importlib.resources import files


def script(name: str) -> str:
    """The text of ``sql/<name>``."""
    return (files("devassist.store") / "sql" / name).read_text(encoding="utf-8")


def statements(name: str) -> dict[str, str]:
    """The named statements of ``sql/<name>``."""
    found: dict[str, str] = {}
    for part in script(name).split("-- name: ")[1:]:
        title, _, sql = part.partition("\n")
        found[title.strip()] = sql.strip().rstrip(";")
    return found
