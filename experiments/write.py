"""The files beside a table file: two CSVs, a page of Markdown, a part of a README."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from experiments.footer import footer
from experiments.measures import MEASURES, needed
from experiments.readme import insert
from experiments.results import CellResult, TableResult
from fedapp.files import write_text

TITLES = {
    "mean": "mean",
    "weighted_mean": "weighted mean",
    "worst": "worst client",
    "bottom20": "bottom 20 %",
    "gap": "gap",
}


def write(result: TableResult) -> list[Path]:
    """Write the results beside the table file and return the paths."""
    start = result.table.path.with_suffix("")
    texts = {
        start.with_name(f"{start.name}.csv"): cells_csv(result),
        start.with_name(f"{start.name}_runs.csv"): runs_csv(result),
        start.with_name(f"{start.name}.md"): markdown(result),
    }
    readme = start.with_name("README.md")
    text = insert(readme, start.name, rows(result))
    if text is not None:
        texts[readme] = text
    for path, text in texts.items():
        write_text(path, text)
    return list(texts)


def cells_csv(result: TableResult) -> str:
    """Return one row for each cell; accuracies, the paper's too, are fractions."""
    names = needed(result.table.measure)
    numbers = [column for name in names for column in (name, f"{name}_sd")]
    head = ["row", "column", "status", "n", *numbers, "measure", "paper_says", "notes"]
    return _csv(head, [_cell_row(result, cell, names) for cell in result.cells])


def _cell_row(
    result: TableResult, found: CellResult, names: Sequence[str]
) -> list[object]:
    cell = found.cell
    numbers = [x for name in names for x in found.numbers.get(name, (None, None))]
    paper = None if cell.paper_says is None else round(cell.paper_says / 100, 6)
    start = [cell.row, cell.column, found.status, found.count]
    return [*start, *numbers, result.table.measure, paper, "; ".join(found.notes)]


def runs_csv(result: TableResult) -> str:
    """Return one row for each cell and seed, from which the cells can be recomputed."""
    names = needed(result.table.measure)
    rows = [
        [run.cell.row, run.cell.column, run.seed, found.status]
        + [found.accuracy.get(name) for name in names]
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


def markdown(result: TableResult) -> str:
    """Return the page: what it shows, the table, what the numbers are, the footer."""
    table = result.table
    lines = [
        f"# {table.shows}",
        "",
        f"Paper: {table.paper}.",
        "",
        "In per cent: mean ± sample deviation over seeds. Clients count equally; the",
        "bottom 20 % is the mean of the lowest fifth, the gap is best minus worst. The",
        "last round is reported, never the best one.",
        "",
        *rows(result),
        "",
        *footer(result),
    ]
    return "\n".join(lines) + "\n"


def titles(result: TableResult) -> list[str]:
    """Return the head of the table, for a page or a screen."""
    names = [TITLES[name] for name in needed(result.table.measure)]
    paper = f"paper: {TITLES[MEASURES[result.table.measure]]}"
    return [
        "",
        *([""] if _has_columns(result) else []),
        *names,
        *([paper] if _has_paper(result) else []),
        "seeds",
    ]


def cells(result: TableResult, found: CellResult) -> list[str]:
    """Return the row of a cell, for a page or a screen."""
    said, names = found.cell.paper_says, needed(result.table.measure)
    missing = (found.status,) + ("-",) * (len(names) - 1)
    numbers = [_number(*found.numbers[name]) for name in names if found.numbers]
    return [
        found.cell.row,
        *([found.cell.column] if _has_columns(result) else []),
        *(numbers or missing),
        *(["-" if said is None else f"{said:.2f}"] if _has_paper(result) else []),
        f"{found.count} of {len(result.table.seeds)}",
    ]


def _number(mean: float, deviation: float | None) -> str:
    spread = "" if deviation is None else f" ± {100 * deviation:.2f}"
    return f"{100 * mean:.2f}{spread}"


def _has_columns(result: TableResult) -> bool:
    return any(found.cell.column for found in result.cells)


def _has_paper(result: TableResult) -> bool:
    return any(found.cell.paper_says is not None for found in result.cells)


def notes(result: TableResult) -> list[str]:
    """Return what happened to cells that are not finished."""
    return [f"{found.cell.name}: {n}" for found in result.cells for n in found.notes]


def rows(result: TableResult) -> list[str]:
    """Return the lines of the table, as Markdown."""
    found = [titles(result), *(cells(result, found) for found in result.cells)]
    safe = [[cell.replace("|", "\\|") for cell in row] for row in found]
    line = ["---"] + ["---:"] * (len(safe[0]) - 1)
    grid = [f"| {' | '.join(row)} |" for row in [safe[0], line, *safe[1:]]]
    return grid + ["", *(f"- {note}" for note in notes(result))] * bool(notes(result))
