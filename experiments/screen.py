"""What the runner shows: how the runs go, and the table at the end."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table as Grid

from experiments.measures import MEASURES, SHARE, printed
from experiments.page import cells, notes, titles
from experiments.results import TableResult
from experiments.store import Result, Run
from fedapp.launch import read_json

# Without a terminal rich assumes 80 columns and would break rows.
WIDE = None if sys.stdout.isatty() else 200
out = Console(highlight=False, markup=False, width=WIDE)
err = Console(stderr=True, highlight=False, markup=False)
ROWS_UNDER_WAY = 3


def complain(problem: object) -> None:
    """Show what is wrong, line by line."""
    for line in str(problem).splitlines():
        err.print(line, style="red", soft_wrap=True)


class Screen:
    """A line for each run that ended and, on a terminal, a bar of those under way."""

    def __init__(self, *, total: int, skipped: int) -> None:
        self._total, self._skipped, self._done = total, skipped, 0
        self._began: dict[str, float] = {}
        self._bar = Progress(
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            console=out,
            transient=True,
            disable=not out.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=max(1, total))

    def __enter__(self) -> "Screen":
        if self._skipped:
            out.print(f"finished before: {self._skipped}")
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away."""
        self._bar.stop()

    def ended(self, run: Run, result: Result) -> None:
        """Show the result of a run."""
        self._done += 1
        seconds = time.monotonic() - self._began.pop(run.name, time.monotonic())
        text = f"failed: {result.cause} (log: {run.log})"
        if result.status == "finished":
            text = f"{_first(run, result)} ({seconds:.0f} s)"
        style = None if result.status == "finished" else "red"
        start = f"[{self._done}/{self._total}] {run.cell.name}, seed {run.seed}: "
        out.print(start + text, style=style, soft_wrap=True)
        self._bar.update(self._task, completed=self._done)

    def tick(self, under_way: Sequence[Run]) -> None:
        """Show what is under way."""
        for run in under_way:
            self._began.setdefault(run.name, time.monotonic())
        if not self._bar.disable:
            words = [_where(run) for run in under_way[:ROWS_UNDER_WAY]]
            self._bar.update(self._task, description="; ".join(words))


def _first(run: Run, result: Result) -> str:
    """Return the first two numbers of a finished run."""
    titles = list(MEASURES[run.cell.measure].titles.items())[:2]
    pairs = [(title, kind, result.numbers.get(n)) for n, (title, kind) in titles]
    return ", ".join(
        f"{title} {'-' if value is None else printed(kind, value, None)}"
        f"{' %' if kind == SHARE else ''}"
        for title, kind, value in pairs
    )


def _where(run: Run) -> str:
    progress = read_json(run.folder / "progress.json")
    start = f"{run.cell.name}, seed {run.seed}"
    if not progress.get("round"):
        return start
    return f"{start}: round {progress['round']}/{progress.get('rounds')}"


def show_plan(wanted: Sequence[Run], todo: Sequence[Run]) -> None:
    """Show which runs are finished and which would be done."""
    for run in wanted:
        state = "to do" if run in todo else "finished"
        out.print(f"{state:8}  {run.cell.name}, seed {run.seed}: {run.folder}")
    out.print(f"to do: {len(todo)} of {len(wanted)} runs")


def show_table(result: TableResult, written: Sequence[Path]) -> None:
    """Show the table, and where it was written."""
    grid = Grid(title=result.table.shows, title_justify="left", box=SIMPLE_HEAD)
    for index, title in enumerate(titles(result)):
        grid.add_column(title, justify="right" if index else "left")
    for found in result.cells:
        grid.add_row(*cells(result, found))
    out.print(grid)
    for note in notes(result):
        complain(note)
    for path in written:
        out.print(str(path), soft_wrap=True)
