"""``fedapp run``: words in, checks, results and exit codes out."""

import re

import pytest
from command_line import fedapp

from fedapp import launch
from fedapp.files import write_json
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


def test_a_misspelt_method_and_a_misspelt_setting_are_both_reported(jobs):
    result = fedapp("run", "fedavgg", "round.count=3")

    first, second = result.stderr.splitlines()
    assert "did you mean 'fedavg'?" in first
    assert "did you mean 'rounds.count'?" in second


def test_an_existing_run_folder_is_refused_as_the_server_would(jobs, tmp_path):
    (tmp_path / "runs" / "one").mkdir(parents=True)
    with pytest.raises(FileExistsError) as server:
        RunFolder(tmp_path / "runs" / "one")

    result = fedapp("run", "output.name=one")

    assert result.exit_code == 2
    assert result.stderr.strip() == str(server.value)
    assert jobs == []


def test_data_that_are_not_there_are_noticed_before_anything_starts(jobs):
    result = fedapp("run", "data.name=mnist", "data.path=nowhere")

    assert result.exit_code == 2
    assert "nowhere' does not exist" in result.stderr
    assert jobs == []


def test_a_run_gets_what_was_said_and_absolute_paths(jobs, tmp_path):
    (tmp_path / "here").mkdir()
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
    assert "failed replies: 1\n  round 1, phase train, client 3: died\n" in output
    assert "90.32 %" not in output
    assert f"run folder: {jobs[0].run_dir}" in output


@pytest.mark.parametrize(
    ("failed", "shown", "more"),
    [(5, 5, ""), (7, 5, "  and 2 more: summary.json has them all\n")],
)
def test_five_failed_replies_are_shown_each_in_a_line(jobs, failed, shown, more):
    one = COMPLETED["failures"][0] | {"cause": "died [1]\nin line 7"}
    jobs.outcome = COMPLETED | {"failures": failed * [one]}

    output = fedapp("run", "output.name=one").output

    lines = shown * "  round 1, phase train, client 3: died [1]\n"
    assert f"failed replies: {failed}\n{lines}{more}run folder" in output


def test_a_failed_run_shows_the_number_of_failed_replies_only(jobs):
    jobs.outcome = COMPLETED | {"status": "failed", "error": "too few replies"}

    output = fedapp("run", "output.name=one").output

    assert "failed replies: 1\n" in output
    assert "client 3: died" not in output


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
