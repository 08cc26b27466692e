"""What docs/ repeats from the code agrees with it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from devassist.core import errors
from devassist.observability.metrics import PrometheusMetrics
from devassist.store.log_query import COLUMNS
from tests.mermaid import check

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def text_of(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def rows_of(name: str) -> list[list[str]]:
    """The cells of every table row of a page."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text_of(name).splitlines() if line[:1] == "|"]


def test_states_are_drawn_from_the_table() -> None:
    """docs/states.mmd is what scripts/draw_states.py draws, and so is its copy in the page."""
    drawn: str = runpy.run_path(str(ROOT / "scripts" / "draw_states.py"))["diagram"]()
    assert text_of("states.mmd") == drawn
    assert f"```mermaid\n{drawn}```" in text_of("architecture.md")


def test_every_error_code_is_listed_with_its_status() -> None:
    """The table of codes has all of the tree."""
    listed = {(cells[0].strip("`"), cells[1]) for cells in rows_of("http-api.md") if len(cells) == 3}
    tree = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.DevAssistError)]
    assert {(c.code, str(c.status)) for c in tree} - listed == set()


def test_every_column_of_the_decision_log_is_listed() -> None:
    """The columns are a promise, so each is explained."""
    named = {name for cells in rows_of("decision-log.md") for name in re.findall(r"`(\w+)`", cells[0])}
    assert set(COLUMNS) - named == set()


def test_every_metric_is_listed() -> None:
    """By the name under which Prometheus sees it."""
    body, _ = PrometheusMetrics(0).render()
    shown = {
        f"{name}_total" if kind == "counter" and not name.endswith("_total") else name
        for name, kind in re.findall(r"^# TYPE (\w+) (counter|gauge|histogram)$", body.decode(), re.MULTILINE)
        if not name.endswith("_created")
    }
    listed = {cells[0].strip("`") for cells in rows_of("operations.md")}
    assert shown - listed == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link of a page names a file."""
    found = re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text("utf-8"))
    assert [link for link in found if not (path.parent / link).exists()] == []


def test_diagrams_are_valid() -> None:
    """Mermaid draws every diagram of every page."""
    blocks = [
        (path.name, block)
        for path in PAGES
        for block in re.findall(r"```mermaid\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
    ]
    assert blocks
    results = check([block for _, block in blocks])
    assert [(name, r.error) for (name, _), r in zip(blocks, results, strict=True) if not r.ok] == []
