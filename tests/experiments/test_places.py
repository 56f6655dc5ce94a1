"""Ranks within columns and over them, costs, and where they are shown."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from table_files import MISSING, cell, run_of, table, whole

from experiments.page import markdown, rows
from experiments.places import averages, places
from experiments.results import TableResult, gather
from experiments.spreadsheet import cells_csv, runs_csv
from experiments.store import Result

METHODS = {"a": "fedavg", "b": "fedper", "c": "local", "d": "fedbabu"}
COLUMNS = {"x": 0.1, "y": 0.5}
MEANS = {
    "x": {"a": 0.90, "b": 0.88, "c": 0.88, "d": 0.70},
    "y": {"a": 0.60, "b": 0.55, "c": 0.62, "d": 0.60},
}
WORST = {"a": 0.30, "b": 0.20, "c": 0.10, "d": 0.10}
BOTTOM = {"a": 0.20, "b": 0.40, "c": 0.30, "d": 0.10}
ALSO = ["rank", "tail-rank", "traffic", "seconds"]


def fate(row: str, column: str, seed: int = 1) -> Result:
    """Return a finished run: 2.5 MB a seed, 90 s."""
    found = whole(MEANS[column][row], WORST[row], BOTTOM[row], 0.5)
    return replace(found, bytes=2_500_000 * seed)


def result(folder: Path, also=ALSO, lost=(), seeds=(1,)) -> TableResult:
    cells = [
        cell(row, method, column=column, set={"data.alpha": alpha})
        for column, alpha in COLUMNS.items()
        for row, method in METHODS.items()
    ]
    found = table(folder, *cells, also=also, seeds=list(seeds))
    runs = [
        (
            run_of(one, seed=seed),
            MISSING
            if (one.row, one.column) in lost
            else fate(one.row, one.column, seed),
        )
        for one in found.cells
        for seed in seeds
    ]
    return gather(found, runs)


def test_places_by_hand(tmp_path: Path):
    found = places(result(tmp_path).cells)
    assert [found[f"{row} / x"].rank for row in METHODS] == [1, 2.5, 2.5, 4]
    assert [found[f"{row} / y"].rank for row in METHODS] == [2.5, 4, 1, 2.5]
    # By worst client 1, 2, 3.5, 3.5; by bottom 20 % 3, 1, 2, 4.
    assert [found[f"{row} / x"].tail_rank for row in METHODS] == [2, 1.5, 2.75, 3.75]


def test_columns_count_equally_in_averages(tmp_path: Path):
    found = averages(result(tmp_path).cells)
    assert [found[row].place.rank for row in METHODS] == [1.75, 3.25, 1.75, 3.25]
    assert found["b"].accuracy["mean"] == pytest.approx((0.88 + 0.55) / 2)
    assert found["b"].accuracy["worst"] == pytest.approx(0.20)


def test_a_column_that_is_not_finished_has_no_places_and_no_averages(tmp_path: Path):
    found = result(tmp_path, lost=[("c", "y")])
    assert set(places(found.cells)) == {f"{row} / x" for row in METHODS}
    assert averages(found.cells) == {}
    assert "Averaged" not in markdown(found)
    assert "| a | y | 60.00 | 30.00 | 20.00 | 50.00 | - | - | 2.5 | 90 |" in markdown(
        found
    )


def test_a_row_that_is_not_in_all_columns_leaves_no_averages(tmp_path: Path):
    found = result(tmp_path)
    assert averages(found.cells[:-1]) == {}
    assert averages(found.cells[:4]) == {}


def test_ranks_and_costs_stand_beside_the_accuracies(tmp_path: Path):
    lines = rows(result(tmp_path))
    assert lines[0].endswith("| gap | rank | tail rank | MB | s | seeds |")
    assert (
        "| b | x | 88.00 | 20.00 | 40.00 | 50.00 | 2.5 | 1.5 | 2.5 | 90 |" in lines[3]
    )
    start = lines.index("Averaged over all columns:")
    assert lines[start + 2].endswith("| gap | rank | tail rank |")
    assert lines[start + 5] == "| b | 71.50 | 20.00 | 40.00 | 50.00 | 3.25 | 1.50 |"


def test_only_what_is_asked_for_is_shown(tmp_path: Path):
    found = result(tmp_path, also=["traffic"])
    assert rows(found)[0].endswith("| gap | MB | seeds |")
    assert "rank" not in markdown(found)
    plain = result(tmp_path, also=[])
    assert rows(plain)[0].endswith("| gap | seeds |")
    assert "bytes" not in cells_csv(plain) + runs_csv(plain)


def test_they_are_in_the_files_too(tmp_path: Path):
    found = result(tmp_path, seeds=(1, 3))
    first = next(csv.DictReader(io.StringIO(cells_csv(found))))
    assert (first["rank"], first["tail_rank"]) == ("1.0", "2.0")
    assert (float(first["bytes"]), float(first["seconds"])) == (5_000_000, 90)
    runs = list(csv.DictReader(io.StringIO(runs_csv(found))))
    assert [row["bytes"] for row in runs[:2]] == ["2500000", "7500000"]


def test_a_word_that_is_not_known_is_named(tmp_path: Path):
    with pytest.raises(
        ValueError, match=r"also: 'rnak': expected one of rank, .*'rank'"
    ):
        result(tmp_path, also=["rnak"])
