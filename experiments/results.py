"""The results of a table: each cell over its seeds, and what made them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.measures import costs, needed, summarise
from experiments.store import Result, Run
from experiments.table import Cell, Table

_PATH = re.compile(
    r"(?<![\w$.…/])/[^\s'\",;:()]*?([^\s'\",;:()/]+)/?(?=[\s'\",;:()]|$)"
)

Means = Mapping[str, tuple[float, float | None]]


@dataclass(frozen=True)
class CellResult:
    """A cell over its seeds.

    ``status`` is ``finished`` if every seed is, else ``failed`` or ``missing``, and
    then ``notes`` say which seeds and why, and ``numbers`` is empty: a mean over the
    seeds that went well would flatter.
    """

    cell: Cell
    status: str
    count: int
    numbers: Means
    notes: tuple[str, ...]


@dataclass(frozen=True)
class TableResult:
    """A table and what its runs found."""

    table: Table
    cells: tuple[CellResult, ...]
    runs: tuple[tuple[Run, Result], ...]

    @property
    def failed(self) -> bool:
        """Whether a cell failed."""
        return any(cell.status == "failed" for cell in self.cells)

    @property
    def finished(self) -> list[tuple[Run, Result]]:
        """The runs that are whole."""
        return [pair for pair in self.runs if pair[1].status == "finished"]


def gather(table: Table, runs: Sequence[tuple[Run, Result]]) -> TableResult:
    """Return the results of a table from those of its runs."""
    cells = []
    for cell in table.cells:
        mine = [(run, result) for run, result in runs if run.cell is cell]
        whole = [
            {**r.numbers, "bytes": r.bytes, "seconds": r.seconds}
            for _, r in mine
            if r.status == "finished"
        ]
        failed = any(result.status == "failed" for _, result in mine)
        complete = len(whole) == len(mine)
        status = "finished" if complete else "failed" if failed else "missing"
        shown = (*needed(table.measure), *costs(table.also))
        numbers = summarise(whole, shown) if complete else {}
        notes = _notes(mine)
        cells.append(CellResult(cell, status, len(whole), numbers, notes))
    return TableResult(table, tuple(cells), tuple(runs))


def _notes(runs: Sequence[tuple[Run, Result]]) -> tuple[str, ...]:
    """Return which seeds are not finished, and why; seeds of one fate together."""
    fates: dict[str, list[str]] = {}
    for run, result in runs:
        if result.status != "finished":
            cause = f": {_brief(result.cause, run)}" if result.cause else ""
            fates.setdefault(result.status + cause, []).append(str(run.seed))
    return tuple(f"seed {', '.join(seeds)} {fate}" for fate, seeds in fates.items())


def _brief(cause: str, run: Run) -> str:
    """Return what happened and the first client that it happened to: two lines."""
    lines = cause.splitlines()
    more = " (and more)" if len(lines) > 2 else ""
    return without_paths(" ".join(lines[:2]), run) + more


def without_paths(text: str, run: Run) -> str:
    """Return a cause of failure in one line that names no folder of this machine."""
    known = (run.data_path, str(run.out), str(Path.home()))
    for folder in sorted(filter(None, known), key=len, reverse=True):
        text = text.replace(folder, "/" + Path(folder).name)
    return _PATH.sub(r"…/\1", " ".join(text.split()))
