"""The results as CSV, in fractions: a row for each cell, and one for each run."""

import csv
import io
from collections.abc import Iterable, Sequence

from experiments.measures import costs, needed, paper_value
from experiments.places import RANKS, Place, places
from experiments.results import CellResult, TableResult


def cells_csv(result: TableResult) -> str:
    """Return one row for each cell; accuracies, the paper's too, are fractions.

    A number that is not defined in some run has an empty place.
    """
    names = (*needed(result.table.measure), *costs(result.table.also))
    numbers = [column for name in names for column in (name, f"{name}_sd")]
    ranks = [name for word, name in RANKS.items() if word in result.table.also]
    head = ["row", "column", "status", "n", *numbers, *ranks]
    head += ["measure", "paper_says", "notes"]
    where = places(result.cells)
    return _csv(
        head,
        [
            _cell_row(result, cell, names, ranks, where.get(cell.cell.name))
            for cell in result.cells
        ],
    )


def _cell_row(
    result: TableResult,
    found: CellResult,
    names: Sequence[str],
    ranks: Sequence[str],
    place: Place | None,
) -> list[object]:
    cell = found.cell
    numbers = [x for name in names for x in found.numbers.get(name, (None, None))]
    numbers += [getattr(place, name, None) for name in ranks]
    paper = paper_value(cell.measure, cell.paper_says)
    start = [cell.row, cell.column, found.status, found.count]
    return [*start, *numbers, result.table.measure, paper, "; ".join(found.notes)]


def runs_csv(result: TableResult) -> str:
    """Return one row for each cell and seed, from which the cells can be recomputed."""
    names, more = needed(result.table.measure), costs(result.table.also)
    rows = [
        [run.cell.row, run.cell.column, run.seed, found.status]
        + [found.numbers.get(name) for name in names]
        + [getattr(found, name) if found.numbers else None for name in more]
        + [run.identity]
        for run, found in result.runs
    ]
    return _csv(["row", "column", "seed", "status", *names, *more, "identity"], rows)


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
