"""Tables as text (pure): every row says what its values are values of, so that a row alone can be found and quoted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from devassist.knowledge.parsing.document import Cell

_DIGIT = re.compile(r"[0-9]")
_LONGEST_HEADER = 40


def grid(cells: Sequence[Cell]) -> list[list[Cell | None]]:
    """The cells by row and column; a merged cell stands in every place that it covers."""
    if not cells:
        return []
    height = max(cell.row + cell.rows for cell in cells)
    width = max(cell.column + cell.columns for cell in cells)
    places: list[list[Cell | None]] = [[None] * width for _ in range(height)]
    for cell in cells:
        for row in range(cell.row, cell.row + cell.rows):
            for column in range(cell.column, cell.column + cell.columns):
                places[row][column] = cell
    return places


def rows_as_text(cells: Sequence[Cell], header_rows: int = 0) -> list[str]:
    """One line a row.

    With a header (declared, or plainly one): ``Item: express; Rate: 13%``. Without: the values with ``|`` between. A
    value merged over columns stands once, with its width; one merged over rows stands in each of them, marked so.
    """
    places = grid(cells)
    if not places:
        return []
    count = header_rows if header_rows < len(places) else 0
    if not count and _is_header(places):
        count = 1
    names = _names(places[:count])
    lines = [_row(row, names) for row in places[count:]]
    titles = [_row(row, []) for row in places[:count] if _covers_all(row)]
    return [each for each in titles + lines if each] or [_row(row, []) for row in places]


def text_of(cells: Sequence[Cell]) -> str:
    """The cells as they are, row by row."""
    return "\n".join(_row(row, []) for row in grid(cells))


def _covers_all(row: Sequence[Cell | None]) -> bool:
    return len(row) > 1 and row[0] is not None and row[0].columns == len(row)


def _is_header(places: Sequence[Sequence[Cell | None]]) -> bool:
    """Whether an undeclared first row names its columns: short distinct words, and numbers below one of them."""
    first, rest = places[0], places[1:]
    texts = [cell.text for cell in first if cell is not None and cell.rows == cell.columns == 1]
    if len(texts) != len(first) or len(first) < 2 or not rest or len(set(texts)) < len(texts):
        return False
    if any(not text or len(text) > _LONGEST_HEADER or _DIGIT.search(text) or "\n" in text for text in texts):
        return False
    columns = [[row[i] for row in rest] for i in range(len(first))]
    return any(all(cell is not None and _DIGIT.search(cell.text) for cell in column) for column in columns)


def _names(rows: Sequence[Sequence[Cell | None]]) -> list[str]:
    """The header of each column; several header rows are joined from above."""
    if not rows:
        return []
    names: list[str] = []
    for column in range(len(rows[0])):
        above: list[str] = []
        for row in rows:
            cell = row[column]
            if cell is not None and cell.text and not _covers_all(row) and _flat(cell.text) not in above:
                above.append(_flat(cell.text))
        names.append(" / ".join(above))
    return names


def _row(row: Sequence[Cell | None], names: Sequence[str]) -> str:
    parts: list[str] = []
    seen: list[Cell] = []
    for column, cell in enumerate(row):
        if cell is None or any(cell is other for other in seen):
            continue
        seen.append(cell)
        value = _flat(cell.text)
        if cell.columns > 1 and value:
            value += f" (colspan={cell.columns})"
        if cell.rows > 1 and value:
            value += f" (rowspan={cell.rows})"
        if names and value:
            own = dict.fromkeys(name for name in names[column : column + cell.columns] if name)
            value = f"{', '.join(own)}: {value}" if own else value
        if value or not names:
            parts.append(value)
    return ("; " if names else " | ").join(parts).strip()


def _flat(text: str) -> str:
    return " ".join(text.split())
