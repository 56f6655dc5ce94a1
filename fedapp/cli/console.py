"""What all commands print with, and their exit codes."""

import sys
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

# Without a terminal rich assumes 80 columns and would break rows.
WIDE = None if sys.stdout.isatty() else 200
out = Console(highlight=False, markup=False, width=WIDE)
err = Console(stderr=True, highlight=False, markup=False)

BAD_SETTINGS = 2
INTERRUPTED = 130


def complain(problem: object) -> None:
    """Print what went wrong."""
    for line in str(problem).splitlines():
        err.print(line, style="red", soft_wrap=True)


def print_table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, right: bool
) -> None:
    """Print a table of text."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in head:
        # All but the last may hold what a user will type.
        whole = column != head[-1]
        table.add_column(column, justify="right" if right else "left", no_wrap=whole)
    for row in rows:
        table.add_row(*row)
    out.print(table)


def per_cent(share: float | None) -> str:
    """Return a share as per cent; a dash for none."""
    return "-" if share is None else f"{100 * share:.2f} %"
