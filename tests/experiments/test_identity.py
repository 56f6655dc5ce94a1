from pathlib import Path

import pytest
from table_files import cell, run_of, table

from experiments.identity import code_of, hash_of, identity_of
from experiments.plan import plan
from experiments.sources import sources_behind
from experiments.table import TableError

FACTS = {"seed": 1, "data_key": "mnist-1", "code": "c"}
SETTINGS = {"method": "fedavg", "local.lr": 0.1, "data.path": "$DATA/mnist"}


@pytest.mark.parametrize(
    "changes", [{"seed": 2}, {"data_key": "mnist-2"}, {"code": "d"}]
)
def test_seed_data_and_code_tell_runs_apart(changes: dict[str, str]):
    one = identity_of(SETTINGS, **FACTS)
    assert one != identity_of(SETTINGS, **FACTS | changes)


def test_settings_tell_runs_apart():
    other = SETTINGS | {"local.lr": 0.2}
    assert identity_of(SETTINGS, **FACTS) != identity_of(other, **FACTS)


def test_the_place_of_the_data_does_not():
    elsewhere = SETTINGS | {"data.path": "$DATA/copies/mnist"}
    assert identity_of(SETTINGS, **FACTS) == identity_of(elsewhere, **FACTS)


def test_settings_of_other_methods_and_the_output_do_not_count(tmp_path: Path):
    other = {"hdc-fl.mix": 0.5, "rounds.count": 1}
    plain, more = (
        table(tmp_path, cell("a"), shared=shared).cells[0]
        for shared in ({"rounds.count": 1}, other)
    )
    assert plain.settings == more.settings
    assert not [n for n in plain.settings if n == "seed" or n.startswith("output.")]


def test_cells_of_different_tables_share_a_run_folder(tmp_path: Path):
    first = table(tmp_path, cell("a"), cell("b", "local"), name="one").cells[0]
    second = table(tmp_path, cell("x", column="y"), name="two").cells[0]
    assert run_of(first).folder == run_of(second).folder
    assert run_of(first).folder != run_of(first, seed=2).folder


def test_the_code_is_what_stands_in_the_files_and_their_names(tmp_path: Path):
    here, there = tmp_path / "a.py", tmp_path / "b.py"
    here.write_text("x = 1")
    there.write_text("x = 1")
    one = hash_of([("p/a.py", here)])
    assert hash_of([("p/a.py", there)]) == one
    assert hash_of([("p/b.py", here)]) != one
    here.write_text("x = 2")
    assert hash_of([("p/a.py", here)]) != one


def test_the_code_of_a_method_of_another_package_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from fedapp import methods
    from strategies.fedavg import FedAvg

    (tmp_path / "otherpackage.py").write_text("x = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    theirs = type("Theirs", (FedAvg,), {"__module__": "otherpackage"})
    row = methods.METHODS["fedavg"]
    more = {**methods.table(), "theirs": methods.Method(theirs, row.client, "")}
    monkeypatch.setattr("experiments.identity.table", lambda: more)

    assert code_of("theirs") != code_of("fedavg")
    before = code_of("theirs")
    (tmp_path / "otherpackage.py").write_text("x = 2")
    assert code_of("theirs") != before


@pytest.mark.parametrize(
    ("changed", "concerned"),
    [
        ("client_apps/fedper.py", {"fedper", "hdc-fl", "fedavg-se"}),
        ("fedapp/hdc/heads.py", {"hdc-fl"}),
        ("fedapp/params.py", {"fedavg", "fedper", "hdc-fl", "fedavg-se", "local"}),
        ("fedapp/data/shift.py", {"fedavg", "fedper", "hdc-fl", "fedavg-se", "local"}),
        ("fedapp/methods.py", set()),
        ("fedapp/report/page.py", set()),
    ],
)
def test_a_changed_file_concerns_the_methods_that_need_it(
    changed: str, concerned: set[str], monkeypatch: pytest.MonkeyPatch
):
    ours = ("fedavg", "fedper", "hdc-fl", "fedavg-se", "local")
    before = {name: code_of(name) for name in ours}
    read = Path.read_bytes

    def edited(file: Path) -> bytes:
        return read(file) + b"#" * file.as_posix().endswith(changed)

    monkeypatch.setattr(Path, "read_bytes", edited)
    assert {name for name in ours if code_of(name) != before[name]} == concerned


def test_imports_inside_functions_and_relative_ones_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    files = {
        "one/__init__.py": "",
        "one/a.py": "def f():\n    from .b import x\n",
        "one/b.py": "import one.c, json\nx = 1",
        "one/c.py": "",
        "one/d.py": "",
        "one/skipped.py": "import one.d",
    }
    (tmp_path / "one").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "one/b.py").write_text("import one.c, json, one.skipped\nx = 1")

    found = sources_behind(["one.a"], packages=["one"], skip=["one.skipped"])

    assert sorted(found) == ["one", "one.a", "one.b", "one.c"]


def test_data_of_equal_contents_are_the_same_wherever_they_lie(
    tmp_path: Path, npz_folders: tuple[Path, Path, Path]
):
    own = {"data.name": "custom", "data.path": "$DATA/set.npz"}
    found = table(tmp_path, cell("a", set=own), seeds=[1])
    keys = [
        plan(found, data=folder, out=tmp_path, cache=tmp_path / "cache")[0].identity
        for folder in npz_folders
    ]
    assert keys[0] == keys[1] != keys[2]


@pytest.fixture
def npz_folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return a data folder, a copy, and one with another image."""
    import numpy as np

    folders = tuple(tmp_path / name for name in ("one", "copy", "other"))
    for folder, grey in zip(folders, (3, 3, 4), strict=True):
        folder.mkdir()
        images = np.full((20, 8, 8), grey, np.uint8)
        np.savez(folder / "set.npz", images=images, labels=np.arange(20) % 2)
    return folders


def test_a_table_that_needs_a_data_folder_says_so(tmp_path: Path):
    own = {"data.name": "mnist", "data.path": "$DATA/mnist"}
    found = table(tmp_path, cell("a", set=own), cell("b", "local", set=own))
    with pytest.raises(TableError) as caught:
        plan(found, data=None, out=tmp_path, cache=tmp_path)
    assert str(caught.value).splitlines() == [
        "table.toml: data.path = '$DATA/mnist': say where the data sets are, by "
        "--data FOLDER or the environment variable FEDAPP_DATA"
    ]


def test_data_that_are_not_there_are_found_before_anything_runs(tmp_path: Path):
    own = {"data.name": "mnist", "data.path": "$DATA/mnist"}
    found = table(tmp_path, cell("a", set=own))
    with pytest.raises(TableError, match=r"table\.toml: data\.path = .* not exist"):
        plan(found, data=tmp_path / "no", out=tmp_path, cache=tmp_path)
