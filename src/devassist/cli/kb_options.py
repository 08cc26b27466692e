"""Options and arguments that the ``kb`` verbs have in common, checked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, TypeVar

import click

from devassist.core.doc_names import collection_fault, doc_id_fault, label_fault
from devassist.ports.library import DOCS

F = TypeVar("F", bound=Callable[..., Any])


def day(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Callback: a day as ISO 8601 writes it."""
    try:
        return None if value is None else date.fromisoformat(value.strip()).isoformat()
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a day such as 2026-03-01") from None


def _checked(fault: Callable[[str], str | None]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(_: click.Context, __: click.Parameter, value: tuple[str, ...] | str | None) -> Any:
        given = (value,) if isinstance(value, str) else value or ()
        for one in given:
            if (found := fault(one)) is not None:
                raise click.BadParameter(found)
        return value

    return callback


def one_collection(command: F) -> F:
    return click.option("--collection", metavar="NAME", callback=_checked(collection_fault), help="Only this one.")(
        command
    )


def into_collection(command: F) -> F:
    return click.option(
        "--collection", metavar="NAME", default=DOCS, show_default=True, callback=_checked(collection_fault),
        help="Where the documents belong.",
    )(command)  # fmt: skip


def some_labels(command: F) -> F:
    return click.option(
        "--label", "labels", multiple=True, metavar="LABEL", callback=_checked(label_fault),
        help="Only who has one of these labels may see the documents; may be repeated.",
    )(command)  # fmt: skip


def as_of(command: F) -> F:
    return click.option("--as-of", callback=day, metavar="DAY", help="The day that is asked about.  [default: today]")(
        command
    )


def json_lines(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")(command)


def json_value(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object.")(command)


def optional_doc_id(command: F) -> F:
    return click.option(
        "--doc-id", metavar="ID", callback=_checked(doc_id_fault), help="Id of the one document."
    )(command)  # fmt: skip
