"""The command line: words in, checks, tables and exit codes out."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedapp import cli, launch
from fedapp.config import defaults
from fedapp.files import write_json
from fedapp.methods import METHODS
from fedapp.run_folder import RunFolder

ACCURACY = {
    "mean": 0.8312,
    "weighted_mean": 0.8401,
    "std": 0.05,
    "worst": 0.7024,
    "bottom20": 0.7256,
    "gap": 0.2049,
}
CLIENT = {
    "client": 7,
    "examples": 31,
    "accuracy": 0.9032,
    "loss": 0.3,
    "latent_group": 2,
    "trained": True,
}
COMPLETED = {
    "status": "completed",
    "error": None,
    "accuracy": ACCURACY,
    "per_client": [CLIENT],
    "failures": [{"round": 1, "phase": "train", "client": 3, "cause": "died"}],
}


@pytest.fixture
def jobs(monkeypatch, tmp_path):
    """Run nothing: ``outcome`` is what the run leaves, or raises; jobs are kept."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDAPP_COMMIT", "")
    kept = Jobs()

    def simulate(job: launch.Job, on_poll: launch.OnPoll) -> None:
        kept.append(job)
        if isinstance(kept.outcome, BaseException):
            raise kept.outcome
        write_json(job.run_dir / "summary.json", kept.outcome)

    monkeypatch.setattr(launch, "simulate", simulate)
    return kept


class Jobs(list):
    """The jobs that were to be run."""

    outcome: object = COMPLETED


def fedapp(*words: str):
    return CliRunner().invoke(cli.app, list(words))


def test_version():
    assert re.fullmatch(r"fedapp \d+\.\d+\.\d+\n", fedapp("--version").output)


def test_help_needs_neither_torch_nor_flower():
    script = "import sys; import fedapp.cli; print({'torch', 'flwr'} & {*sys.modules})"
    command = [sys.executable, "-c", script]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.stdout.strip() == "set()", answer.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fedavgg"], "method = 'fedavgg': there is no such method; did you mean 'f"),
        (["fedavg", "round.count=3"], "did you mean 'rounds.count'?"),
        (["fedavg", "rounds.count=0"], "rounds.count = 0:"),
        (["fedavg", "rounds.count=ten"], "rounds.count = 'ten':"),
        (["fedavg", "fedper"], "fedper: expected key=value"),
        (["fedavg", "method=fedper"], "method: given twice"),
        (["data.name=mnisst"], "did you mean 'mnist'?"),
    ],
)
def test_bad_settings_start_nothing(jobs, words, message):
    result = fedapp("run", *words)

    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert jobs == []


def test_each_wrong_setting_has_a_line(jobs):
    result = fedapp("run", "fedavg", "rounds.count=x", "seed=y")

    assert len(result.stderr.splitlines()) == 2


def test_an_existing_run_folder_is_refused_as_the_server_would(jobs, tmp_path):
    (tmp_path / "runs" / "one").mkdir(parents=True)
    with pytest.raises(FileExistsError) as server:
        RunFolder(tmp_path / "runs" / "one")

    result = fedapp("run", "output.name=one")

    assert result.exit_code == 2
    assert result.stderr.strip() == str(server.value)
    assert jobs == []


def test_a_run_gets_what_was_said_and_absolute_paths(jobs, tmp_path):
    result = fedapp(
        *["run", "fedper", "data.name=mnist", "data.path=here", "data.clients=5"],
        *["--workers", "2", "output.dir=out", "output.name=one"],
    )

    assert result.exit_code == 0, result.output
    (job,) = jobs
    assert job.overrides == {
        "method": "fedper",
        "data.name": "mnist",
        "data.path": str(tmp_path / "here"),
        "data.clients": 5,
        "output.dir": str(tmp_path / "out"),
        "output.name": "one",
    }
    assert (job.clients, job.workers) == (5, 2)
    assert job.run_dir == tmp_path / "out" / "one"


def test_a_run_without_a_name_gets_one(jobs):
    fedapp("run", "fedavg", "seed=7")

    name = jobs[0].overrides["output.name"]
    assert re.fullmatch(r"fedavg-digits-s7-\d{8}-\d{6}", name)


def test_results_are_shown(jobs):
    output = fedapp("run", "output.name=one").output

    for number in ("83.12 %", "70.24 %", "72.56 %", "20.49 %", "84.01 %"):
        assert number in output
    assert "failed replies: 1" in output
    assert "90.32 %" not in output
    assert f"run folder: {jobs[0].run_dir}" in output


def test_results_of_each_client_are_shown_on_request(jobs):
    output = fedapp("run", "output.name=one", "--per-client").output

    assert re.search(r"7 +31 +90\.32 % +2 +yes", output)


def test_quiet_shows_the_run_folder_only(jobs):
    result = fedapp("run", "output.name=one", "--quiet")

    assert result.output == f"run folder: {jobs[0].run_dir}\n"


@pytest.mark.parametrize(
    ("outcome", "code", "message"),
    [
        ({"status": "failed", "error": "too few replies"}, 1, "too few replies"),
        ({"status": "running"}, 1, "'running'"),
        (launch.LaunchError("it died\nlast words"), 1, "last words"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_exit_code_is_the_truth(jobs, outcome, code, message):
    jobs.outcome = outcome

    result = fedapp("run", "output.name=one")

    assert result.exit_code == code
    assert message in result.stderr


def test_inline_engine_runs_here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDAPP_COMMIT", "")
    words = ["fedavg", "data.clients=3", "rounds.count=1", "output.name=one"]

    result = fedapp("run", *words, "--engine", "inline")

    assert result.exit_code == 0, result.output
    assert "round 1/1: mean" in result.output
    assert "round 1 of 1" in (tmp_path / "runs" / "one" / "log.txt").read_text()


def test_an_inline_run_that_fails_says_why(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDAPP_COMMIT", "")
    words = ["data.name=custom", "data.path=nowhere", "output.name=one"]

    result = fedapp("run", *words, "--engine", "inline")

    assert result.exit_code == 1
    assert "nowhere" in result.stderr
    log = (tmp_path / "runs" / "one" / "log.txt").read_text()
    assert "Traceback" in log


def test_methods_lists_each_method():
    output = fedapp("methods").output

    for name, method in METHODS.items():
        assert re.search(rf"^ *{name} .*{re.escape(method.summary)}", output, re.M)


def test_datasets_lists_each_data_set():
    assert "scikit-learn" in fedapp("datasets").output


def test_every_setting_is_listed_with_its_default():
    output = fedapp("settings").output
    for name in METHODS:
        output += fedapp("settings", name).output

    for name, default in defaults().items():
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        row = rf"^ *{re.escape(name)} +{re.escape(shown or chr(34) * 2)} "
        assert re.search(row, output, re.M), name


def test_settings_show_what_is_allowed():
    output = fedapp("settings").output

    assert re.search(r"local\.momentum +0\.9 +number, >= 0, < 1 ", output)
    assert re.search(r"local\.device +auto +auto, cpu, cuda ", output)


def test_settings_of_an_unknown_method():
    result = fedapp("settings", "fedprr")

    assert result.exit_code == 2
    assert "did you mean 'fedper'?" in result.stderr


@pytest.mark.parametrize(
    ("progress", "share"),
    [
        ({}, 0.0),
        ({"round": 0, "rounds": 4}, 0.0),
        ({"round": 3, "rounds": 4, "phase": "train", "done": 1, "asked": 2}, 2.5 / 4),
        ({"round": 3, "rounds": 4, "phase": "evaluate", "done": 1, "asked": 2}, 3 / 4),
    ],
)
def test_share_done(progress, share):
    assert cli.share_done(progress) == share


def test_without_a_terminal_each_evaluation_is_one_plain_line():
    text = io.StringIO()
    display = cli.Display(Console(file=text), quiet=False)
    seen = {"round": 5, "rounds": 9, "evaluated": 4, "mean": 0.5, "worst": 0.25}

    with display:
        for progress in ({"round": 1}, seen, {**seen, "done": 3}):
            display.update(progress)

    assert text.getvalue() == "round 4/9: mean 50.00 %, worst 25.00 %\n"


def git(folder: Path, *words: str) -> str:
    user = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    command = ["git", "-C", str(folder), *user, *words]
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_commit_tells_whether_what_ships_was_changed(tmp_path):
    git(tmp_path, "init")
    (tmp_path / "pyproject.toml").write_text("a = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    commit = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "notes.txt").write_text("not shipped")
    assert cli.commit_of(tmp_path) == commit

    (tmp_path / "pyproject.toml").write_text("a = 2\n")
    assert cli.commit_of(tmp_path) == f"{commit}-dirty"


def test_an_app_inside_another_repository_has_no_commit(tmp_path):
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "one")
    (tmp_path / "site-packages").mkdir()

    assert cli.commit_of(tmp_path / "site-packages") == ""
