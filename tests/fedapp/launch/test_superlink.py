"""A SuperLink that does not come."""

import sys
from pathlib import Path

import pytest

from fedapp import launch
from fedapp.launch import simulation, superlink


def job(run_dir: Path) -> launch.Job:
    return launch.Job(
        overrides={"output.dir": str(run_dir.parent), "output.name": run_dir.name},
        clients=3,
        workers=None,
        gpus_per_client=0.0,
        run_dir=run_dir,
        install_dependencies=False,
    )


def test_a_superlink_that_dies_is_reported_with_its_log(tmp_path, monkeypatch):
    command = [sys.executable, "-c", "print('no port'); raise SystemExit(3)"]
    monkeypatch.setattr(simulation, "superlink_command", lambda port: command)
    polled = []

    with pytest.raises(launch.LaunchError, match="exit code 3\nno port"):
        launch.simulate(job(tmp_path / "one"), polled.append)

    assert (tmp_path / "one.log.txt").read_text() == "no port\n"
    assert not (tmp_path / "one").exists()


def test_a_superlink_that_never_answers_is_reported_and_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "superlink_command", lambda port: ["sleep", "95"])
    monkeypatch.setattr(superlink, "START_SECONDS", 0.3)

    with pytest.raises(launch.LaunchError, match="did not answer"):
        launch.simulate(job(tmp_path / "one"), lambda _: None)
