"""fedapp report and fedapp compare, and what comparing finds."""

import json
import re

import pytest
from made_run import EVALUATIONS, manifest, write_run
from typer.testing import CliRunner

from fedapp.cli import commands as cli
from fedapp.report.compare import compare
from fedapp.report.comparison import Paired, labels


def fedapp(*words: object):
    return CliRunner().invoke(cli.app, [str(word) for word in words])


def with_accuracies(path, *values):
    summary = json.loads((path / "summary.json").read_text())
    for client, value in zip(summary["per_client"], values, strict=True):
        client["accuracy"] = value
    (path / "summary.json").write_text(json.dumps(summary))
    return path


@pytest.fixture
def first(tmp_path):
    return write_run(tmp_path / "one" / "a", method="fedavg")


@pytest.fixture
def second(tmp_path):
    path = write_run(tmp_path / "two" / "b", method="fedper", **{"local.lr": 0.25})
    return with_accuracies(path, 0.5, 0.625, 0.875, 0.0)


def test_clients_are_paired_and_unseen_ones_left_out(first, second):
    (found,) = compare([first, second]).pairs

    assert isinstance(found, Paired)
    assert found.differences == {0: -0.25, 1: 0.25, 2: 0.0}
    assert found.mean == 0.0
    assert found.counts == (1, 1, 1)
    assert found.ends == (0, 1)


def test_a_client_unseen_in_one_run_is_left_out(first, tmp_path):
    all_seen = write_run(tmp_path / "seen", **{"data.unseen-clients": 0})

    for runs in ([first, all_seen], [all_seen, first]):
        (found,) = compare(runs).pairs
        assert isinstance(found, Paired)
        assert list(found.differences) == [0, 1, 2]


def test_settings_that_differ_are_listed_and_no_others(first, second):
    assert compare([first, second]).settings() == [
        ["method", "fedavg", "fedper"],
        ["local.lr", "0.05", "0.25"],
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"key": "digits-9"}, r"the data sets differ: digits \(digits-0123\), digits"),
        ({"seed": 7, "clients": manifest().clients[:3]}, r"seed = 42 and 7"),
        (
            {
                "clients": manifest().clients[::-1],
                "settings": {**manifest().settings, "alpha": 0.5},
            },
            r"other samples: data\.alpha = 1\.0 and 0\.5",
        ),
        ({"settings": {**manifest().settings, "shift": "none"}}, r"data\.shift = rot"),
        ({"label_maps": ((1, 0, 2),)}, r"another partition"),
    ],
)
def test_other_samples_are_not_paired(first, second, changes, reason):
    (second / "manifest.json").write_text(manifest(**changes).to_json())

    (why,) = compare([first, second]).unpaired()

    assert why.startswith("b and a cannot be compared client by client: ")
    assert re.search(reason, why)


def test_another_seed_of_the_same_samples_is_paired(first, second):
    (second / "manifest.json").write_text(manifest(seed=7).to_json())

    assert compare([first, second]).unpaired() == []


def test_labels_are_as_short_as_tells_runs_apart(tmp_path):
    paths = [tmp_path / "x" / "a", tmp_path / "y" / "a"]

    assert labels(paths) == ["x/a", "y/a"]
    assert labels([*paths[:1], tmp_path / "b"]) == ["a", "b"]


def test_report_builds_the_page_again(first):
    result = fedapp("report", first)

    assert result.exit_code == 0
    assert result.output == f"report: {first / 'report.html'}\n"
    assert (first / "report.html").is_file()


@pytest.mark.parametrize(
    "words", [["report", "{tmp}"], ["compare", "{run}", "{tmp}"], ["compare", "{run}"]]
)
def test_what_is_no_run_is_an_error(first, tmp_path, words):
    given = [word.format(tmp=tmp_path, run=first) for word in words]
    output = tmp_path / "c.html"
    result = fedapp(*given, *(["-o", output] if words[0] == "compare" else []))

    assert result.exit_code == 2
    expected = "is no run folder" if "{tmp}" in words else "at least two run folders"
    assert expected in result.stderr
    assert "Traceback" not in result.output
    assert not output.exists()


def test_a_run_given_twice_is_an_error(first):
    result = fedapp("compare", first, first / ".." / "a")

    assert result.exit_code == 2
    assert "given twice" in result.stderr


def test_compare_shows_and_writes(first, second, tmp_path):
    output = tmp_path / "c.html"
    result = fedapp("compare", first, second, "-o", output)

    assert result.exit_code == 0, result.output
    text = output.read_text("utf-8")
    for shown in ("66.67 %", "37.50 %", "local.lr", "client 0: -25.00"):
        assert shown in result.output
        assert shown in text
    assert f"page: {output}" in result.output
    assert text.count("<svg ") == 3
    assert "<script" not in text


def test_a_failed_run_is_marked(first, tmp_path):
    bad = write_run(tmp_path / "bad", status="failed", error="<out of memory>")
    result = fedapp("compare", first, bad, "-o", tmp_path / "c.html")

    assert result.exit_code == 0
    assert "failed" in result.output
    text = (tmp_path / "c.html").read_text("utf-8")
    assert "Failed</strong> run: bad" in text
    assert "&lt;out of memory&gt;" in text


def test_runs_without_results_cannot_be_compared(first, tmp_path):
    bad = write_run(tmp_path / "bad")
    (bad / "metrics.csv").unlink()
    (bad / "summary.json").write_text('{"status": "failed", "error": "x"}')
    result = fedapp("compare", first, bad, "-o", tmp_path / "c.html")

    assert result.exit_code == 1
    assert "fewer than two of these runs have results" in result.stderr
    assert "bad has no results by client" in result.output


def test_curves_have_the_numbers_of_both_runs(first, second, tmp_path):
    fedapp("compare", first, second, "-o", tmp_path / "c.html")

    text = (tmp_path / "c.html").read_text("utf-8")
    mean = f"{100 * sum(EVALUATIONS[4][:3]) / 3:.2f} % at round 4"
    assert f"Mean of clients: a {mean}; b {mean}." in text
