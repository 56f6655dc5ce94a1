"""A table file: its cells with complete settings, or everything wrong with it."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.measures import NEWCOMERS, UNSEEN
from experiments.schema import CellEntry, TableFile, parse, wrong_words
from experiments.settings import problems_of, resolve
from experiments.sharing import name_of, shown_runs, wrong_reading
from experiments.studies import Need, need_of
from fedapp.config import Flat, Scalar, flatten


class TableError(ValueError):
    """A table that cannot be run; the message has one line for each problem."""


@dataclass(frozen=True)
class Cell:
    """Where a cell stands, what the paper says as printed, and what is run.

    ``settings`` are those of ``settings.resolve``; with ``same_as``, of the cell of
    that name, whose runs are shown. ``variant`` and ``measure`` say which of a run's
    numbers are.
    """

    row: str
    column: str
    paper_says: float | None
    settings: Flat
    same_as: str = ""
    variant: str = ""
    measure: str = "final-accuracy"

    @property
    def name(self) -> str:
        """Where it stands, in words."""
        return name_of(self.row, self.column)

    @property
    def need(self) -> Need | None:
        """The study that finds its numbers, if one must."""
        return need_of(self.measure, self.variant)


@dataclass(frozen=True)
class Table:
    """A checked table file."""

    path: Path
    paper: str
    shows: str
    measure: str
    also: tuple[str, ...]
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
    if file is not None:
        problems += wrong_words(file)
    entries = found.get("cell")
    cells, wrong = _cells(
        [e for e in entries if isinstance(e, dict)]
        if isinstance(entries, list)
        else [],
        _flat(found.get("all")),
        str(found.get("measure")),
    )
    problems += wrong + _without_unseen(cells)
    if file is None or problems:
        raise TableError("\n".join(f"{path.name}: {line}" for line in problems))
    return Table(
        path=path,
        paper=file.paper,
        shows=file.shows,
        measure=file.measure,
        also=(*file.also,),
        seeds=(*file.seeds,),
        cells=cells,
    )


def _without_unseen(cells: Sequence[Cell]) -> list[str]:
    return [
        f"cell {cell.name!r}: measure = {cell.measure!r} needs data.unseen-clients "
        "above 0"
        for cell in cells
        if cell.measure in (UNSEEN, NEWCOMERS)
        and cell.settings["data.unseen-clients"] == 0
    ]


def _flat(found: object) -> dict[str, Scalar]:
    return flatten(found) if isinstance(found, Mapping) else {}


def _cells(
    entries: Sequence[Mapping[str, Any]], shared: Flat, measure: str
) -> tuple[tuple[Cell, ...], list[str]]:
    """Return the cells that are right, and what is wrong with all others."""
    cells: list[Cell] = []
    names: list[str] = []
    wrong: list[list[str]] = []
    for number, found in enumerate(entries, start=1):
        entry, lines = parse(CellEntry, found)
        own, more = shown_runs(found, entries)
        own = _flat(own)
        settings_lines = problems_of(shared, own) + more
        settings_lines += wrong_reading(found, {**shared, **own}, measure)
        if entry is not None and not settings_lines:
            cells.append(
                Cell(
                    entry.row,
                    entry.column,
                    entry.paper_says,
                    resolve(shared, own),
                    entry.same_as,
                    entry.variant,
                    measure,
                )
            )
        wrong.append(lines + settings_lines)
        names.append(
            f"cell {number} ({name_of(found.get('row'), found.get('column')) or '?'})"
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
    """Return which cells would show the same; ``same-as`` alone says that it does."""
    told = [cell for cell in cells if cell.variant or not cell.same_as]
    meanings = [(cell.settings, cell.variant) for cell in told]
    return [
        f"cells {told[first].name!r} and {cell.name!r} have the same settings: "
        "delete one, or set what tells them apart"
        for index, cell in enumerate(told)
        if (first := meanings.index(meanings[index])) < index
    ]
