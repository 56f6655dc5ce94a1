"""Every table file of this repository, and the results beside it."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from experiments.table import read_table
from fedapp.config import defaults
from fedapp.inline import run_inline
from fedapp.launch import read_json

FOLDER = Path(__file__).parents[2] / "experiments"
TABLES = sorted(FOLDER.rglob("*.toml"))
PATH = re.compile(r"(?<![\w.$…])(/[A-Za-z]|[A-Z]:\\|~/)")

SMALL: dict[str, Any] = {
    "data.name": "digits",
    "data.path": "",
    "data.clients": 4,
    "data.unseen-clients": 0,
    "data.samples-per-client": 24,
    "data.official-split": False,
    "rounds.count": 1,
    "local.epochs": 1,
    "seed": 0,
}

FIRST = {min(folder.glob("*.toml")) for folder in {t.parent for t in TABLES}}
"""The tables whose first cell is run by default: one of each folder."""

each_table = pytest.mark.parametrize("path", TABLES, ids=[t.stem for t in TABLES])


def test_there_are_tables():
    assert TABLES


@each_table
def test_the_file_is_right(path: Path):
    assert read_table(path).cells


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(t, id=t.stem, marks=() if t in FIRST else pytest.mark.slow)
        for t in TABLES
    ],
)
def test_the_first_cell_runs_for_a_round(path: Path, tmp_path: Path):
    settings = {**defaults(), **read_table(path).cells[0].settings, **SMALL}
    if settings["data.partition"] == "natural":  # digits have no owners
        settings["data.partition"] = "iid"
    output = {"output.dir": str(tmp_path), "output.name": "run"}

    run_inline({**settings, **output})

    summary = read_json(tmp_path / "run" / "summary.json")
    assert summary["status"] == "completed"
    assert len(summary["per_client"]) == 4


@each_table
def test_results_name_no_path(path: Path):
    for file in path.parent.glob(f"{path.stem}*"):
        if file.suffix in (".csv", ".md"):
            assert not PATH.search(file.read_text("utf-8")), file


@each_table
def test_results_are_of_the_cells_in_the_file(path: Path):
    results = path.with_suffix(".csv")
    if not results.exists():
        pytest.skip("no results yet")
    with results.open(newline="") as stream:
        found = [(row["row"], row["column"]) for row in csv.DictReader(stream)]
    assert found == [(cell.row, cell.column) for cell in read_table(path).cells]


@pytest.mark.parametrize(
    "text", ["at /home/me/runs", "'/tmp'", "(C:\\data)", "~/x", "=/data/mnist"]
)
def test_the_pattern_sees_paths(text: str):
    assert PATH.search(text)
    assert not PATH.search("$DATA/mnist, mean/worst, a / b")
