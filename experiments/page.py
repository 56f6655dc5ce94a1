"""The results to read, in per cent: rows for the screen, and a page of Markdown."""

from experiments.footer import footer
from experiments.measures import MEASURES, about_unseen, needed
from experiments.results import CellResult, TableResult

TITLES = {
    "mean": "mean",
    "weighted_mean": "weighted mean",
    "worst": "worst client",
    "bottom20": "bottom 20 %",
    "gap": "gap",
    "unseen": "unseen: mean",
    "unseen_worst": "unseen: worst",
    "unseen_shared": "shared encoder: mean",
    "unseen_shared_worst": "shared encoder: worst",
    "unseen_alone": "alone: mean",
    "unseen_alone_worst": "alone: worst",
}

TAIL = (
    "In per cent: mean ± sample deviation over seeds. Clients count equally; the",
    "bottom 20 % is the mean of the lowest fifth, the gap is best minus worst. The",
    "last round is reported, never the best one.",
)
UNSEEN = (
    "In per cent: mean ± sample deviation over seeds. Clients count equally. `mean` is",
    "over clients that train; the other columns are of clients that never do: with",
    "what the method gives them, with the shared encoder under the same fitted head,",
    "with a model each trained alone. The last round is reported, never the best one.",
)


def markdown(result: TableResult) -> str:
    """Return the page: what it shows, the table, what the numbers are, the footer."""
    table = result.table
    lines = [
        f"# {table.shows}",
        "",
        f"Paper: {table.paper}.",
        "",
        *(UNSEEN if about_unseen(table.measure) else TAIL),
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
    numbers = [
        _number(*found.numbers[name]) if name in found.numbers else "-"
        for name in names
        if found.numbers
    ]
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
    remarks = [f"- {note}" for note in notes(result)]
    return [*grid, "", *remarks] if remarks else grid
