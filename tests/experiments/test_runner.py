"""The command: whole tables, with real processes for the runs."""

import csv
from pathlib import Path

import pytest
from table_files import cell, table_file
from typer.testing import CliRunner, Result

from experiments.run import ROOT, app
from fedapp.config import SettingsError

LARGE = {"data.clients": 1000}
"""More clients than digits can serve: found only when the run divides the data."""


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def rows(table: Path) -> dict[str, dict[str, str]]:
    with table.with_suffix(".csv").open(newline="") as stream:
        return {row["row"]: row for row in csv.DictReader(stream)}


def records(out: Path) -> dict[str, int]:
    """Return when each finished run was recorded."""
    found = out.glob("*/experiment.json")
    return {file.parent.name: file.stat().st_mtime_ns for file in found}


def test_a_table_bit_by_bit_with_a_failing_cell_then_shared(tmp_path: Path):
    out = tmp_path / "out"
    cells = [cell("a"), cell("b", "local"), cell("bad", "fedper", set=LARGE)]
    table = table_file(tmp_path, *cells, seeds=[1])

    # One row only: the others are missing, which is no failure.
    first = run(table, "--out", out, "--only", "a")
    assert first.exit_code == 0, first.output
    assert [r["status"] for r in rows(table).values()] == ["finished"] + ["missing"] * 2
    assert "| b | missing |" in table.with_suffix(".md").read_text()
    before = records(out)
    assert len(before) == 1

    # All: what is finished is left alone.
    second = run(table, "--out", out, "--jobs", 2)
    assert second.exit_code == 1, second.output
    assert "finished before: 1" in second.output
    found = rows(table)
    assert [r["status"] for r in found.values()] == ["finished"] * 2 + ["failed"]
    assert found["bad"]["notes"].startswith("seed 1 failed: data.clients = 1000 need")
    assert 0 <= float(found["b"]["worst"]) < float(found["b"]["mean"]) < 1
    after = records(out)
    assert len(after) == 2
    assert before.items() <= after.items()

    # What failed would be done again.
    assert "to do: 1 of 3 runs" in run(table, "--out", out, "--dry-run").output

    # Another table finds its cell done, under another name.
    other = table_file(tmp_path, cell("x", "local", column="y"), name="o", seeds=[1])
    shared = run(other, "--out", out)
    assert shared.exit_code == 0, shared.output
    assert records(out) == after
    assert rows(other)["x"]["mean"] == found["b"]["mean"]


def test_a_dry_run_checks_and_does_nothing(tmp_path: Path):
    table = table_file(tmp_path, cell("a"), cell("b", "local"))
    found = run(table, "--out", tmp_path / "out", "--dry-run")
    assert found.exit_code == 0
    assert "to do: 4 of 4 runs" in found.output
    assert [file.name for file in tmp_path.iterdir()] == ["table.toml"]


def test_a_plug_in_that_cannot_be_loaded_is_a_complaint(tmp_path: Path, monkeypatch):
    def broken() -> None:
        raise SettingsError("the method 'mine' cannot be loaded")

    monkeypatch.setattr("experiments.identity.table", broken)
    found = run(table_file(tmp_path, cell("a")), "--out", tmp_path / "out")
    assert found.exit_code == 2
    assert "the method 'mine' cannot be loaded" in found.output


def test_a_bad_table_is_refused_before_anything_runs(tmp_path: Path):
    table = table_file(tmp_path, cell("a"), cell("b", "fedprr"), seeds=["x"])
    found = run(table, "--out", tmp_path / "out")
    assert found.exit_code == 2
    assert "table.toml: seeds.0 = 'x'" in found.stderr
    assert "table.toml: cell 2 (b): method = 'fedprr'" in found.stderr
    assert not (tmp_path / "out").exists()


def test_a_row_that_is_not_there(tmp_path: Path):
    table = table_file(tmp_path, cell("HDC-FL"))
    found = run(table, "--out", tmp_path / "out", "--only", "HDCFL")
    assert found.exit_code == 2
    assert "there is no such row; did you mean 'HDC-FL'?" in found.stderr


@pytest.mark.parametrize("folder", ["experiments/out", "out"])
def test_runs_are_kept_out_of_the_repository(tmp_path: Path, folder: str):
    table = table_file(tmp_path, cell("a"))
    found = run(table, "--out", ROOT / folder)
    assert found.exit_code == 2
    assert "runs do not belong into the repository" in found.stderr


def test_a_data_folder_is_taken_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own = {"data.name": "mnist", "data.path": "$DATA/mnist"}
    table = table_file(tmp_path, cell("a", set=own))
    monkeypatch.delenv("FEDAPP_DATA", raising=False)
    assert "FEDAPP_DATA" in run(table, "--out", tmp_path).stderr
    monkeypatch.setenv("FEDAPP_DATA", str(tmp_path / "here"))
    assert f"{tmp_path / 'here' / 'mnist'}" in run(table, "--out", tmp_path).stderr
