import csv
import io
import statistics
from pathlib import Path

import pytest
from table_files import ABOUT, MISSING, broken, cell, run_of, table, whole

from experiments.measures import MEASURES, needed
from experiments.page import markdown, rows
from experiments.readme import insert
from experiments.results import TableResult, gather, without_paths
from experiments.spreadsheet import cells_csv, runs_csv
from experiments.store import Result
from experiments.write import write

FIRST = whole(0.9, 0.7, 0.75, 0.25)
SECOND = whole(0.8, 0.4, 0.5, 0.55)


def result(folder: Path, *fates: list[Result], **changes: object) -> TableResult:
    """Return a table of rows a, b, ... whose runs had these fates, one a seed."""
    methods = ["fedavg", "fedper", "local"]
    cells = [
        cell("abc"[i], methods[i], **{"paper-says": 88.08} if i == 0 else {})
        for i in range(len(fates))
    ]
    found = table(folder, *cells, **changes)
    runs = [
        (run_of(found.cells[i], seed=seed), fate)
        for i, row in enumerate(fates)
        for seed, fate in zip(found.seeds, row, strict=True)
    ]
    return gather(found, runs)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_finished_cell_has_fractions_and_the_paper_beside_them(tmp_path: Path):
    (row,) = read(cells_csv(result(tmp_path, [FIRST, SECOND])))
    assert (row["row"], row["status"], row["n"]) == ("a", "finished", "2")
    for name, pair in {"mean": (0.9, 0.8), "worst": (0.7, 0.4)}.items():
        assert float(row[name]) == pytest.approx(statistics.mean(pair))
        assert float(row[f"{name}_sd"]) == pytest.approx(statistics.stdev(pair))
    assert (row["measure"], row["paper_says"]) == ("final-accuracy", "0.8808")


def test_cells_can_be_recomputed_from_the_runs(tmp_path: Path):
    found = result(tmp_path, [FIRST, SECOND])
    gaps = [float(row["gap"]) for row in read(runs_csv(found))]
    (row,) = read(cells_csv(found))
    assert float(row["gap"]) == pytest.approx(statistics.mean(gaps))
    assert float(row["gap_sd"]) == pytest.approx(statistics.stdev(gaps))


def test_the_page_is_in_per_cent_with_two_decimals(tmp_path: Path):
    page = markdown(result(tmp_path, [FIRST, SECOND], [FIRST, FIRST]))
    assert "| | mean | worst client" in page.replace("|  |", "| |")
    # sqrt(0.005) = 0.0707..., sqrt(0.045) = 0.2121...
    start = "| a | 85.00 ± 7.07 | 55.00 ± 21.21 | 62.50 ± 17.68 | 40.00 ± 21.21 |"
    assert f"{start} 88.08 | 2 of 2 |" in page
    assert "| b | 90.00 ± 0.00 |" in page
    assert "| - | 2 of 2 |" in page


def test_a_failed_cell_is_shown_as_failed_with_its_cause(tmp_path: Path):
    found = result(tmp_path, [FIRST, broken("no memory")], [FIRST, SECOND])
    assert found.failed
    row, other = read(cells_csv(found))
    assert (row["status"], row["n"], row["mean"]) == ("failed", "1", "")
    assert row["notes"] == "seed 2 failed: no memory"
    assert other["status"] == "finished"
    assert "| a | failed | - | - | - |" in markdown(found)
    assert "- a: seed 2 failed: no memory" in markdown(found)


def test_a_long_cause_is_told_by_its_first_two_lines(tmp_path: Path):
    two = "2 of 4 gave a reply:\n  client 1: nan"
    for cause, more in ((two, ""), (f"{two}\n  client 3: nan", " (and more)")):
        found = result(tmp_path, [broken(cause), broken(cause)])
        told = f"seed 1, 2 failed: 2 of 4 gave a reply: client 1: nan{more}"
        assert found.cells[0].notes == (told,)


def test_seeds_of_one_fate_stand_together(tmp_path: Path):
    found = result(tmp_path, [broken("no memory"), broken("no memory")])
    assert found.cells[0].notes == ("seed 1, 2 failed: no memory",)


def test_a_missing_cell_is_shown_as_missing_and_is_no_failure(tmp_path: Path):
    found = result(tmp_path, [MISSING, FIRST])
    assert not found.failed
    (row,) = read(cells_csv(found))
    assert (row["status"], row["mean"], row["notes"]) == (
        "missing",
        "",
        "seed 1 missing",
    )
    assert "| a | missing |" in markdown(found)


def test_one_seed_has_no_deviation(tmp_path: Path):
    found = result(tmp_path, [FIRST], seeds=[1])
    (row,) = read(cells_csv(found))
    assert (row["mean"], row["mean_sd"]) == ("0.9", "")
    assert "| a | 90.00 | 70.00 |" in markdown(found)


def test_a_measure_that_is_not_always_shown_gets_a_column(tmp_path: Path):
    found = result(tmp_path, [FIRST, SECOND], measure="weighted-accuracy")
    (row,) = read(cells_csv(found))
    assert float(row["weighted_mean"]) == pytest.approx(0.85)
    assert "| weighted mean | paper: weighted mean |" in markdown(found)


def test_the_footer_says_how_the_numbers_came_about(tmp_path: Path):
    page = markdown(result(tmp_path, [FIRST, SECOND], [FIRST, MISSING]))
    for line in (
        "- Seeds: 1, 2",
        "- Commit: 1234-dirty",
        "- Data: digits-abc",
        "- Versions: python 3.11.7",
        "- Hardware: Abacus, 2 cores, no GPU",
        "- Time: 4.5 minutes, the runs added up",
        '"rounds.count" = 1',
        '"data.name" = "digits"',
    ):
        assert line in page.splitlines()
    assert page.count('method = "fedavg"') == page.count('method = "fedper"') == 1


def test_a_column_is_shown_where_a_cell_has_one(tmp_path: Path):
    found = table(tmp_path, cell("a", column="x"), cell("a", "local"), seeds=[1])
    runs = [(run_of(one), FIRST) for one in found.cells]
    lines = rows(gather(found, runs))
    assert lines[2].startswith("| a | x | 90.00 |")
    assert lines[3].startswith("| a |  | 90.00 |")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/out/run-1 exists", "…/run-1 exists"),
        ("data.path = '/secret/mnist' holds no data", "data.path = '…/mnist' holds no"),
        ("open('/my own/sets/x.py'), line 3", "open('…/x.py'), line 3"),
        ("use and/or, 1/2, $DATA/mnist", "use and/or, 1/2, $DATA/mnist"),
        ("two\nlines", "two lines"),
    ],
)
def test_causes_name_no_folder_of_the_machine(tmp_path: Path, text: str, clean: str):
    one = table(tmp_path, cell("a")).cells[0]
    found = without_paths(text, run_of(one, data_path="/my own/sets"))
    assert found.startswith(clean)
    assert "/secret" not in found


def test_a_failed_cell_writes_no_path(tmp_path: Path):
    found = result(tmp_path, [FIRST, broken("cannot read /secret/place/file")])
    for file in write(found):
        assert "/secret" not in file.read_text()
        assert str(tmp_path) not in file.read_text()


def test_the_same_results_give_the_same_bytes(tmp_path: Path):
    found = result(tmp_path, [FIRST, SECOND])
    first = {file: file.read_bytes() for file in write(found)}
    assert {file: file.read_bytes() for file in write(found)} == first
    assert [file.name for file in first] == ["table.csv", "table_runs.csv", "table.md"]


def test_the_table_goes_into_the_readme_of_its_folder(tmp_path: Path):
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- table: table -->\nold\n<!-- end of table -->\nb\n")
    found = result(tmp_path, [FIRST, SECOND])
    assert readme in write(found)
    start, end = "a\n<!-- table: table -->\n\n", "\n\n<!-- end of table -->\nb\n"
    assert readme.read_text() == start + "\n".join(rows(found)) + end


@pytest.mark.parametrize("text", ["", "<!-- table: t -->", "<!-- table: other --> x"])
def test_a_readme_without_a_place_for_it_is_left_alone(tmp_path: Path, text: str):
    (tmp_path / "README.md").write_text(text)
    assert insert(tmp_path / "README.md", "t", ["x"]) is None
    assert insert(tmp_path / "no.md", "t", ["x"]) is None


@pytest.mark.parametrize("measure", MEASURES)
def test_a_table_of_any_measure_can_be_written(tmp_path: Path, measure: str):
    """Studies and newcomers have numbers that are no accuracies to rank by."""
    wanted = needed(measure)
    cells = [
        {
            "row": row,
            "set": {"method": "hdc-fl", "data.unseen-clients": 1, key: 2},
        }
        for row, key in (("a", "hdc-fl.rank"), ("b", "rounds.count"))
    ]
    found = table(tmp_path, *cells, measure=measure)
    numbers = {name: 0.125 for name in wanted}
    runs = [
        (run_of(one, seed=seed), Result("finished", "", numbers, 90.0, ABOUT))
        for one in found.cells
        for seed in found.seeds
    ]
    written = write(gather(found, runs))
    (first, *_) = read(next(p for p in written if p.suffix == ".csv").read_text())
    assert [float(first[name]) for name in wanted] == [0.125] * len(wanted)
