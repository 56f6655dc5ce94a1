"""The results as CSV, in fractions: a row for each cell, and one for each run."""

import csv
import io
from collections.abc import Iterable, Sequence

from experiments.measures import needed, paper_value
from experiments.results import CellResult, TableResult


def cells_csv(result: TableResult) -> str:
    """Return one row for each cell; accuracies, the paper's too, are fractions.

    A number that is not defined in some run has an empty place.
    """
    names = needed(result.table.measure)
    numbers = [column for name in names for column in (name, f"{name}_sd")]
    head = ["row", "column", "status", "n", *numbers, "measure", "paper_says", "notes"]
    return _csv(head, [_cell_row(result, cell, names) for cell in result.cells])


def _cell_row(
    result: TableResult, found: CellResult, names: Sequence[str]
) -> list[object]:
    cell = found.cell
    numbers = [x for name in names for x in found.numbers.get(name, (None, None))]
    paper = paper_value(cell.measure, cell.paper_says)
    start = [cell.row, cell.column, found.status, found.count]
    return [*start, *numbers, result.table.measure, paper, "; ".join(found.notes)]


def runs_csv(result: TableResult) -> str:
    """Return one row for each cell and seed, from which the cells can be recomputed."""
    names = needed(result.table.measure)
    rows = [
        [run.cell.row, run.cell.column, run.seed, found.status]
        + [found.numbers.get(name) for name in names]
        + [run.identity]
        for run, found in result.runs
    ]
    return _csv(["row", "column", "seed", "status", *names, "identity"], rows)


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
