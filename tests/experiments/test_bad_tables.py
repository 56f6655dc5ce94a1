from pathlib import Path
from typing import Any

import pytest
from table_files import cell, table_file

from experiments.table import TableError, read_table


def problems(folder: Path, *cells: Any, **changes: Any) -> list[str]:
    with pytest.raises(TableError) as caught:
        read_table(table_file(folder, *cells, **changes))
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"seeds": [1, 1.5]}, "seeds.1 = 1.5: input should be a valid integer"),
        ({"seeds": [True]}, "seeds.0 = True: input should be a valid integer"),
        ({"seeds": ["1"]}, "seeds.0 = '1': input should be a valid integer"),
        ({"seeds": [3, 3]}, "seeds: 3 is there twice"),
        ({"seeds": None}, "seeds: missing; give it a value"),
        ({"seed": [1]}, "seed: there is no such key; did you mean 'seeds'?"),
        (
            {"measure": "final-acuracy"},
            "measure = 'final-acuracy': expected one of final-accuracy, "
            "weighted-accuracy, worst-accuracy, bottom20-accuracy, accuracy-gap, "
            "latent-ari, unseen-accuracy, newcomer-accuracy, donor-swap, grouping; "
            "did you mean "
            "'final-accuracy'?",
        ),
        (
            {"measure": "latent-arj"},
            "measure = 'latent-arj': expected one of final-accuracy, "
            "weighted-accuracy, worst-accuracy, bottom20-accuracy, accuracy-gap, "
            "latent-ari, unseen-accuracy, newcomer-accuracy, donor-swap, grouping; "
            "did you mean "
            "'latent-ari'?",
        ),
        (
            {"measure": "unseen-accuracy"},
            "cell 'a': measure = 'unseen-accuracy' needs data.unseen-clients above 0",
        ),
    ],
)
def test_a_wrong_key_of_the_file(tmp_path: Path, changes: dict[str, Any], line: str):
    assert problems(tmp_path, cell("a"), **changes) == [f"table.toml: {line}"]


def test_places_are_among_accuracies(tmp_path: Path):
    own = {"data.unseen-clients": 1}
    changes = {"measure": "newcomer-accuracy", "also": ["rank", "seconds"]}
    assert problems(tmp_path, cell("a", set=own), **changes) == [
        "table.toml: also: 'rank' goes with measures of accuracy only"
    ]


@pytest.mark.parametrize(
    ("own", "line"),
    [
        (
            {"local.lrr": 0.1},
            "local.lrr: there is no such setting; did you mean 'local.lr'?",
        ),
        (
            {"method": "fedprr"},
            "method = 'fedprr': there is no such method; did you mean 'fedper'?",
        ),
        ({"local.lr": -1}, "local.lr = -1.0: input should be greater than 0"),
        ({"hdc-fl.mix": 0.5}, "hdc-fl.mix: method 'fedavg' does not read it"),
        ({"seed": 3}, "seed: give it in the list `seeds` of the table"),
        (
            {"output.dir": "x"},
            "output.dir: the runner names the run folders; see --out",
        ),
        (
            {"data.path": "/my/mnist"},
            "data.path = '/my/mnist': begin it with $DATA/, the folder given by --data",
        ),
    ],
)
def test_a_wrong_setting_names_file_and_cell(
    tmp_path: Path, own: dict[str, Any], line: str
):
    found = problems(tmp_path, cell("fine"), cell("x", column="y", set=own))
    assert found == [f"table.toml: cell 2 (x / y): {line}"]


def test_a_cell_without_row(tmp_path: Path):
    found = problems(tmp_path, {"set": {"method": "fedavg"}})
    assert found == ["table.toml: cell 1 (?): row: missing; give it a value"]


def test_an_unknown_key_of_a_cell(tmp_path: Path):
    found = problems(tmp_path, {**cell("a"), "paper_says": 1.0})
    assert found == [
        "table.toml: cell 1 (a): paper_says: there is no such key; did you mean "
        "'paper-says'?"
    ]


def test_two_cells_in_one_place(tmp_path: Path):
    found = problems(tmp_path, cell("a"), cell("b", "fedper"), cell("a", "local"))
    assert found == [
        "table.toml: cell 1 (a) and cell 3 (a) stand in one place: rename or delete one"
    ]


@pytest.mark.parametrize("own", [{}, {"local.lr": 0.05}, {"local.momentum": 0.9}])
def test_two_cells_with_one_meaning(tmp_path: Path, own: dict[str, Any]):
    """A default said aloud changes nothing."""
    found = problems(tmp_path, cell("a"), cell("b", set=own))
    assert found == [
        "table.toml: cells 'a' and 'b' have the same settings: delete one, or set what "
        "tells them apart"
    ]


def test_a_whole_number_means_the_same_as_a_fraction(tmp_path: Path):
    ones = [cell("a", set={"data.alpha": 2}), cell("b", set={"data.alpha": 2.0})]
    assert "same settings" in problems(tmp_path, *ones)[0]


def test_everything_is_reported_together(tmp_path: Path):
    bad = cell("x", set={"local.lrr": 1, "rounds.count": 0})
    worse = cell("a", "nothing", set={"local.lr": -1})
    found = problems(tmp_path, cell("a"), bad, worse, seeds=[1.5])
    assert [line.partition(": ")[2].partition(":")[0] for line in found] == [
        "seeds.0 = 1.5",
        "cell 2 (x)",
        "cell 2 (x)",
        "cell 3 (a)",
        "cell 3 (a)",
        "cell 1 (a) and cell 3 (a) stand in one place",
    ]


def test_a_wrong_measure_and_wrong_seeds_are_reported_together(tmp_path: Path):
    found = problems(tmp_path, cell("a"), seeds=[1, 2, 1], measure="m")
    assert [line.split()[1] for line in found] == ["measure", "seeds:"]


def test_what_is_wrong_with_every_cell_is_said_once(tmp_path: Path):
    found = problems(
        tmp_path, cell("a"), cell("b", "fedper"), shared={"rounds.cuont": 3}
    )
    assert found == [
        "table.toml: every cell: rounds.cuont: there is no such setting; did you mean "
        "'rounds.count'?"
    ]


def test_no_cells(tmp_path: Path):
    assert problems(tmp_path)[0].startswith("table.toml: cell = []: ")


@pytest.mark.parametrize("text", ["paper = ", "\x00"])
def test_a_file_that_is_no_toml(tmp_path: Path, text: str):
    path = tmp_path / "t.toml"
    path.write_text(text)
    with pytest.raises(TableError, match=r"t\.toml: not a readable TOML file"):
        read_table(path)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(TableError, match="No such file"):
        read_table(tmp_path / "t.toml")
