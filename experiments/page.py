"""The results to read, in per cent: rows for the screen, and a page of Markdown."""

from experiments.footer import footer
from experiments.measures import COSTS, MEASURES, REPORTED, SHARE, printed
from experiments.places import RANKS, averages, places
from experiments.results import CellResult, TableResult

ALSO_TITLES = {
    "rank": "rank",
    "tail-rank": "tail rank",
    "traffic": "MB",
    "seconds": "s",
}


def markdown(result: TableResult) -> str:
    """Return the page: what it shows, the table, what the numbers are, the footer."""
    table = result.table
    lines = [
        f"# {table.shows}",
        "",
        f"Paper: {table.paper}.",
        "",
        *MEASURES[table.measure].about,
        *_explained(result),
        "",
        *rows(result),
        "",
        *footer(result),
    ]
    return "\n".join(lines) + "\n"


def _explained(result: TableResult) -> list[str]:
    """Return what the further columns mean."""
    also, lines = result.table.also, list[str]()
    if "rank" in also or "tail-rank" in also:
        lines += [
            "The rank is by mean accuracy among the rows of a column, ties sharing the",
            "average; the tail rank is the mean of those by worst client and by bottom",
            "20 %.",
        ]
    if "traffic" in also:
        lines += ["MB are sent in training, both ways, by all clients together."]
    if "seconds" in also:
        lines += ["Seconds are those of a whole run."]
    return lines


def titles(result: TableResult) -> list[str]:
    """Return the head of the table, for a page or a screen."""
    measure = MEASURES[result.table.measure]
    paper = f"paper: {measure.titles[measure.main][0]}"
    return [
        "",
        *([""] if _has_columns(result) else []),
        *(title for title, _ in measure.titles.values()),
        *(ALSO_TITLES[word] for word in result.table.also),
        *([paper] if _has_paper(result) else []),
        "seeds",
    ]


def cells(result: TableResult, found: CellResult) -> list[str]:
    """Return the row of a cell, for a page or a screen."""
    said, measure = found.cell.paper_says, MEASURES[result.table.measure]
    missing = (found.status,) + ("-",) * (len(measure.names) - 1)
    numbers = [
        printed(kind, *found.numbers[name]) if name in found.numbers else "-"
        for name, (_, kind) in measure.titles.items()
        if found.numbers
    ]
    return [
        found.cell.row,
        *([found.cell.column] if _has_columns(result) else []),
        *(numbers or missing),
        *(_also(result, found, word) for word in result.table.also),
        *(["-" if said is None else f"{said:.2f}"] if _has_paper(result) else []),
        f"{found.count} of {len(result.table.seeds)}",
    ]


def _also(result: TableResult, found: CellResult, word: str) -> str:
    if word in COSTS:
        if not found.numbers:
            return "-"
        value = found.numbers[COSTS[word]][0]
        return f"{value / 1e6:.1f}" if word == "traffic" else f"{value:.0f}"
    place = places(result.cells).get(found.cell.name)
    return f"{getattr(place, RANKS[word]):.1f}" if place is not None else "-"


def _has_columns(result: TableResult) -> bool:
    return any(found.cell.column for found in result.cells)


def _has_paper(result: TableResult) -> bool:
    return any(found.cell.paper_says is not None for found in result.cells)


def notes(result: TableResult) -> list[str]:
    """Return what happened to cells that are not finished."""
    return [f"{found.cell.name}: {n}" for found in result.cells for n in found.notes]


def rows(result: TableResult) -> list[str]:
    """Return the lines of the table, as Markdown, and of that over all columns."""
    found = [titles(result), *(cells(result, found) for found in result.cells)]
    lines = _grid(found)
    over_all = _over_all(result)
    if over_all:
        lines += ["", "Averaged over all columns:", "", *_grid(over_all)]
    remarks = [f"- {note}" for note in notes(result)]
    return [*lines, "", *remarks] if remarks else lines


def _over_all(result: TableResult) -> list[list[str]]:
    """Return the rows of the table over all columns, if places are asked for."""
    asked = [word for word in RANKS if word in result.table.also]
    found = averages(result.cells) if asked else {}
    if not found:
        return []
    head = ["", *(title for title, _ in REPORTED.values())]
    head += [ALSO_TITLES[word] for word in asked]
    return [
        head,
        *(
            [row]
            + [printed(SHARE, average.accuracy[name], None) for name in REPORTED]
            + [f"{getattr(average.place, RANKS[word]):.2f}" for word in asked]
            for row, average in found.items()
        ),
    ]


def _grid(rows: list[list[str]]) -> list[str]:
    safe = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    line = ["---"] + ["---:"] * (len(safe[0]) - 1)
    return [f"| {' | '.join(row)} |" for row in [safe[0], line, *safe[1:]]]
