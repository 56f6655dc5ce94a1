"""``fedapp hdc``: tables on the screen, files in the run folder, clean errors."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from command_line import fedapp
from conftest import TINY

from fedapp.config import defaults
from fedapp.inline import run_inline
from fedapp.study import swap, variants


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    output = {"method": "hdc-fl", "output.dir": str(folder), "output.name": "run"}
    run_inline(defaults() | TINY | output)
    return folder / "run"


@pytest.fixture
def run(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_variants(run):
    found = fedapp("hdc", "variants", str(run), "--no-report")
    assert found.exit_code == 0, found.output
    names = {row["variant"] for row in rows(run / "hdc-fl/variants.csv")}
    assert {"own", "hard", "raw", "mix=0.25", "temperature=0.01"} <= names
    for name in names:
        assert f" {name} " in found.stdout
    assert "bit for bit: soft" in found.stdout
    assert str(run / "hdc-fl/variants.json") in found.stdout
    assert not (run / "report.html").exists()


def test_sweeps_that_are_asked_for_are_the_only_ones(run):
    words = ["--mix", "0.9", "--temperature", "2", "--round", "1", "--processes", "1"]
    found = fedapp("hdc", "variants", str(run), *words, "--no-report")
    assert found.exit_code == 0, found.output
    table = rows(run / "hdc-fl/variants.csv")
    sweeps = {row["variant"] for row in table if "=" in row["variant"]}
    assert sweeps == {"mix=0.9", "temperature=2"}
    assert {row["round"] for row in table} == {"1"}


def test_swap_goes_into_the_report(run):
    found = fedapp("hdc", "swap", str(run))
    assert found.exit_code == 0, found.output
    assert "30 ordered pairs of 6 clients" in found.stdout.replace("\n", " ")
    facts = json.loads((run / "hdc-fl/swap.json").read_text())
    assert f"{100 * facts['beneficial']:.2f} %" in found.stdout
    assert len(rows(run / "hdc-fl/swap.csv")) == 30
    assert "Donor swap" in (run / "report.html").read_text()
    assert (run / "figures/swap-matrices.svg").is_file()
    assert (run / "figures/swap-gain.png").is_file()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["variants", "/no/such/run"], "is not a run folder"),
        (["swap", "/no/such/run"], "is not a run folder"),
        (["variants", "RUN", "--round", "9"], "round 9 is not there"),
        (["variants", "RUN", "--temperature", "-1"], "must be positive; got -1"),
        (["swap", "RUN", "--data-path", "/no/data"], "the data of the run are gone"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(finished, words, line):
    found = fedapp("hdc", *(w if w != "RUN" else str(finished) for w in words))
    assert found.exit_code == 2
    assert line in found.stderr
    assert "Traceback" not in found.output


@pytest.mark.parametrize(
    ("command", "target"),
    [("variants", (variants, "evaluate")), ("swap", (swap, "swap"))],
)
def test_ctrl_c_leaves_the_folder_as_it_was(run, monkeypatch, command, target):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(*target, interrupted)
    before = sorted(run.rglob("*"))
    found = fedapp("hdc", command, str(run))
    assert found.exit_code == 130
    assert "interrupted" in found.stderr
    assert sorted(run.rglob("*")) == before
