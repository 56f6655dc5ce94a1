"""The commands ``fedapp report`` and ``fedapp compare``."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

BAD_INPUT = 2


def register(app: typer.Typer) -> None:
    """Add the commands of this file to ``app``."""
    app.command()(report)
    app.command()(compare)


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)
    ],
) -> None:
    """Build report.html and the figures of a run folder again."""
    # Imported here: they take seconds, and every command imports this file.
    from fedapp.report.build import write_report
    from fedapp.report.reading import RunFolderError

    try:
        page = write_report(run)
    except (RunFolderError, OSError) as problem:
        _fail(problem)
    _out().print(f"report: {page}", soft_wrap=True)


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN...",
            help="Run folders; the first is what others are compared with.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The page to write.")
    ] = Path("compare.html"),
) -> None:
    """Put runs side by side: settings that differ, results, each client."""
    from fedapp.files import write_text
    from fedapp.report import compare as comparing
    from fedapp.report.compare_page import compare_page
    from fedapp.report.reading import RunFolderError

    try:
        found = comparing.compare(runs)
        write_text(output, compare_page(found))
    except (RunFolderError, OSError) as problem:
        _fail(problem)
    numbers = (1, 2, 3, 4, 7, 8, 9)
    _table("Results", comparing.RESULTS, found.results(), right=numbers)
    settings = found.settings()
    if settings:
        _table("Settings that differ", ["setting", *found.labels], settings)
    pairs = found.paired()
    if pairs:
        title = f"Minus {found.labels[0]}, client by client (percentage points)"
        _table(title, comparing.PAIRS, pairs, right=range(1, 5))
    for reason in found.unpaired():
        _out().print(reason, soft_wrap=True)
    _out().print(f"page: {output.absolute()}", soft_wrap=True)
    if not found.comparable:
        _fail("fewer than two of these runs have results: there is nothing to compare")


def _table(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
) -> None:
    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for place, name in enumerate(head):
        shown.add_column(name, justify="right" if place in right else "left")
    for row in rows:
        shown.add_row(*row)
    _out().print(shown)


def _out() -> Console:
    # Without a terminal rich assumes 80 columns and would break rows.
    width = None if sys.stdout.isatty() else 200
    return Console(highlight=False, markup=False, width=width)


def _fail(problem: object) -> NoReturn:
    error = Console(stderr=True, highlight=False, markup=False)
    for line in str(problem).splitlines():
        error.print(line, style="red", soft_wrap=True)
    raise typer.Exit(BAD_INPUT if isinstance(problem, Exception) else 1)
