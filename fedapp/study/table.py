"""Tables of a study in the run folder, read and written whole."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedapp.files import write_json, write_text

Cell = int | float | str | bool | None


def write_rows(path: Path, rows: Sequence[Mapping[str, Cell]]) -> None:
    """Replace a CSV file by ``rows``, of which there is at least one, in one step."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def write_results(
    rows_path: Path,
    rows: Iterable[Mapping[str, Cell]],
    summary_path: Path,
    facts: dict[str, Any],
) -> tuple[Path, dict[str, Any]]:
    """Write a study's two files; return the summary's path and the summary.

    The summary comes last: where it is, the rows are whole.
    """
    write_rows(rows_path, list(rows))
    write_json(summary_path, facts)
    return summary_path, facts


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file; none if there is no such file."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))
    except FileNotFoundError:
        return []
