"""A table file: its cells with complete settings, or everything wrong with it."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.measures import MEASURES, about_unseen
from experiments.schema import CellEntry, TableFile, parse, wrong_words
from experiments.settings import problems_of, resolve
from fedapp.config import Flat, Scalar, flatten


class TableError(ValueError):
    """A table that cannot be run; the message has one line for each problem."""


@dataclass(frozen=True)
class Cell:
    """Where a cell stands, what the paper says in per cent, and what is run.

    ``settings`` are those of ``settings.resolve``.
    """

    row: str
    column: str
    paper_says: float | None
    settings: Flat

    @property
    def name(self) -> str:
        """Where it stands, in words."""
        return _name(self.row, self.column)


@dataclass(frozen=True)
class Table:
    """A checked table file."""

    path: Path
    paper: str
    shows: str
    measure: str
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]


def read_table(path: Path) -> Table:
    """Return the table in a TOML file.

    Raises
    ------
    TableError
        One line for each problem in the whole file, with file and cell.
    """
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TableError(f"{path}: not a readable TOML file: {error}") from None
    file, problems = parse(TableFile, found)
    measure = ""
    if file is not None:
        problems += wrong_words(file)
        measure = file.measure
    entries = found.get("cell")
    cells, wrong = _cells(
        [e for e in entries if isinstance(e, dict)]
        if isinstance(entries, list)
        else [],
        _flat(found.get("all")),
    )
    problems += wrong + _without_unseen(cells, measure)
    if file is None or problems:
        raise TableError("\n".join(f"{path.name}: {line}" for line in problems))
    return Table(path, file.paper, file.shows, file.measure, (*file.seeds,), cells)


def _flat(found: object) -> dict[str, Scalar]:
    return flatten(found) if isinstance(found, Mapping) else {}


def _name(row: object, column: object) -> str:
    return " / ".join(str(part) for part in (row, column) if part)


def _cells(
    entries: Sequence[Mapping[str, Any]], shared: Flat
) -> tuple[tuple[Cell, ...], list[str]]:
    """Return the cells that are right, and what is wrong with all others."""
    cells: list[Cell] = []
    names: list[str] = []
    wrong: list[list[str]] = []
    for number, found in enumerate(entries, start=1):
        entry, lines = parse(CellEntry, found)
        own = _flat(found.get("set"))
        settings_lines = problems_of(shared, own)
        if entry is not None and not settings_lines:
            place = entry.row, entry.column
            cells.append(Cell(*place, entry.paper_says, resolve(shared, own)))
        wrong.append(lines + settings_lines)
        names.append(
            f"cell {number} ({_name(found.get('row'), found.get('column')) or '?'})"
        )
    return tuple(cells), [
        *_by_cell(names, wrong),
        *_one_place(names, [(e.get("row"), e.get("column", "")) for e in entries]),
        *_one_meaning(cells),
    ]


def _by_cell(names: Sequence[str], wrong: Sequence[list[str]]) -> list[str]:
    """Return each line with its cell; what is wrong with every cell is said once."""
    common = (
        []
        if len(wrong) < 2
        else [line for line in wrong[0] if all(line in lines for lines in wrong)]
    )
    found = [f"every cell: {line}" for line in common]
    for name, lines in zip(names, wrong, strict=True):
        found += [f"{name}: {line}" for line in lines if line not in common]
    return found


def _one_place(names: Sequence[str], places: Sequence[object]) -> list[str]:
    return [
        f"{names[first]} and {names[index]} stand in one place: rename or delete one"
        for index, place in enumerate(places)
        if (first := places.index(place)) < index
    ]


def _one_meaning(cells: Sequence[Cell]) -> list[str]:
    return [
        f"cells {cells[first].name!r} and {cell.name!r} have the same settings: "
        "delete one, or set what tells them apart"
        for index, cell in enumerate(cells)
        if (first := [c.settings for c in cells].index(cell.settings)) < index
    ]


def _without_unseen(cells: Sequence[Cell], measure: str) -> list[str]:
    if measure not in MEASURES or not about_unseen(measure):
        return []
    return [
        f"cell {cell.name!r}: measure = {measure!r} needs data.unseen-clients above 0"
        for cell in cells
        if cell.settings["data.unseen-clients"] == 0
    ]
