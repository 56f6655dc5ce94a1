"""The files beside a table file: two CSVs, a page, and a part of the README."""

from pathlib import Path

from experiments.page import markdown, rows
from experiments.readme import insert
from experiments.results import TableResult
from experiments.spreadsheet import cells_csv, runs_csv
from fedapp.files import write_text


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
