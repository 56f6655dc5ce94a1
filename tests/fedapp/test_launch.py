"""Starting Flower, following a run, and leaving nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedapp import launch

TINY = ["fedavg", "data.clients=3", "rounds.evaluate-every=1"]


def job(run_dir: Path) -> launch.Job:
    return launch.Job(
        overrides={"output.dir": str(run_dir.parent), "output.name": run_dir.name},
        clients=3,
        workers=None,
        gpus_per_client=0.0,
        run_dir=run_dir,
        install_dependencies=False,
    )


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[launch.Processes]:
    (tmp_path / "empty").mkdir()
    found = launch.Processes(tmp_path)
    yield found
    found.end()


def start(processes: launch.Processes, script: str) -> subprocess.Popen[bytes]:
    home = str(processes.scratch / "home")
    return processes.start(
        ["sh", "-c", script],
        log="log",
        environment={**os.environ, "FLWR_HOME": home},
    )


def test_processes_in_sessions_of_their_own_are_ended(processes):
    start(processes, "setsid sleep 98 & sleep 97")
    assert wait_until(lambda: processes.named("98"))

    processes.end()

    assert processes.running() == []


def test_processes_that_lost_their_environment_are_ended(processes):
    # Ray's workers overwrite their environment, and their parent may die first.
    start(processes, "setsid sh -c 'env -i sleep 98 & sleep 97' & exit")
    assert wait_until(lambda: processes.named("98") and processes.named("97"))

    processes.end()

    assert processes.running() == []


def test_processes_of_others_are_left(processes):
    start(processes, "sleep 97")
    with subprocess.Popen(["sleep", "96"]) as other:
        processes.end()
        assert other.poll() is None
        other.kill()


def test_a_superlink_that_dies_is_reported_with_its_log(tmp_path, monkeypatch):
    command = [sys.executable, "-c", "print('no port'); raise SystemExit(3)"]
    monkeypatch.setattr(launch, "_superlink_command", lambda port: command)
    polled = []

    with pytest.raises(launch.LaunchError, match="exit code 3\nno port"):
        launch.simulate(job(tmp_path / "one"), polled.append)

    assert (tmp_path / "one.log.txt").read_text() == "no port\n"
    assert not (tmp_path / "one").exists()


def test_a_superlink_that_never_answers_is_reported_and_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "_superlink_command", lambda port: ["sleep", "95"])
    monkeypatch.setattr(launch, "START_SECONDS", 0.3)

    with pytest.raises(launch.LaunchError, match="did not answer"):
        launch.simulate(job(tmp_path / "one"), lambda _: None)


def test_the_environment_keeps_flower_and_ray_to_this_run(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    monkeypatch.setenv("NO_PROXY", "example.org")

    env = launch._environment(tmp_path, install=False)

    assert "RAY_ADDRESS" not in env
    assert env["NO_PROXY"] == "example.org,127.0.0.1,localhost"
    assert env["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert env["FLWR_HOME"].startswith(str(tmp_path))


def test_a_wheel_is_bundled_from_a_copy(tmp_path, monkeypatch):
    installed = tmp_path / "site-packages"
    for name in ("fedapp", "strategies", "client_apps", "torch"):
        (installed / name).mkdir(parents=True)
    project = installed / "fedapp" / "pyproject.toml"
    project.write_text("")
    monkeypatch.setattr(launch, "__file__", str(installed / "fedapp" / "launch.py"))
    monkeypatch.setattr(launch, "project_file", lambda: project)

    staged = launch._app_folder(tmp_path)

    found = sorted(entry.name for entry in staged.iterdir())
    assert found == ["client_apps", "fedapp", "pyproject.toml", "strategies"]


def test_settle_keeps_a_final_status_and_what_else_is_known(tmp_path):
    (tmp_path / "stop").touch()
    (tmp_path / "summary.json").write_text('{"status": "completed"}')
    (tmp_path / "progress.json").write_text('{"status": "running", "round": 3}')

    launch.settle(tmp_path, status="failed", error="died")

    assert launch.read_json(tmp_path / "summary.json") == {"status": "completed"}
    expected = {"status": "failed", "round": 3, "error": "died"}
    assert launch.read_json(tmp_path / "progress.json") == expected
    assert not (tmp_path / "stop").exists()


def test_a_run_that_has_no_folder_is_not_settled(tmp_path):
    launch.settle(tmp_path / "none", status="failed", error="died")

    assert not (tmp_path / "none").exists()


# --- real runs ------------------------------------------------------------------------


class Run:
    """A real ``fedapp run`` in a process of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.run_dir = folder / "run"
        place = [f"output.dir={folder}", "output.name=run"]
        program = [sys.executable, "-c", "from fedapp.cli import main; main()"]
        self.process = subprocess.Popen(
            [*program, "run", *TINY, *place, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.scratch = wait_until(self._find_scratch, seconds=60)
        assert self.scratch, "no SuperLink was started"
        self.processes = launch.Processes(self.scratch)

    def _find_scratch(self) -> Path | None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                place = (folder / "cwd").readlink()
            except OSError:
                continue
            if int(parent) == self.process.pid and place.name == "empty":
                return place.parent
        return None

    def await_round(self, number: int) -> None:
        """Wait until a round runs."""

        def reached() -> bool:
            progress = launch.read_json(self.run_dir / "progress.json")
            self.processes.running()  # remembers sessions
            return progress.get("round", 0) >= number

        assert wait_until(reached, seconds=120)

    def end(self) -> tuple[int, str]:
        """Return exit code and output."""
        output, _ = self.process.communicate(timeout=200)
        return self.process.returncode, output

    def status(self) -> str:
        return json.loads((self.run_dir / "summary.json").read_text())["status"]

    def leaves_nothing(self) -> bool:
        return self.processes.running() == [] and not self.scratch.exists()


def wait_until(condition, *, seconds: float = 10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    return None


@pytest.mark.slow
def test_a_run_completes(tmp_path):
    run = Run(tmp_path, "rounds.count=2")
    run.await_round(1)

    code, output = run.end()

    assert code == 0, output
    assert "round 1/2: mean" in output
    assert "\x1b" not in output
    assert str(run.run_dir) in output
    assert run.status() == "completed"
    assert "[round 2 of 2]" in (run.run_dir / "log.txt").read_text()
    assert run.leaves_nothing()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(tmp_path, number):
    run = Run(tmp_path, "rounds.count=1000")
    run.await_round(2)
    asked = time.monotonic()

    run.process.send_signal(number)
    code, output = run.end()

    assert code == 130, output
    assert time.monotonic() - asked < 20
    assert run.status() == "interrupted"
    assert (run.run_dir / "log.txt").exists()
    assert run.leaves_nothing()


@pytest.mark.slow
def test_an_early_interrupt_leaves_nothing(tmp_path):
    run = Run(tmp_path, "rounds.count=1000")

    run.process.send_signal(signal.SIGINT)
    code, output = run.end()

    assert code == 130, output
    assert run.leaves_nothing()


@pytest.mark.slow
def test_a_failing_run_says_why(tmp_path):
    run = Run(tmp_path, "data.name=custom", f"data.path={tmp_path / 'nowhere'}")

    code, output = run.end()

    assert code == 1, output
    assert "nowhere" in output
    assert run.status() == "failed"
    assert run.leaves_nothing()


@pytest.mark.slow
def test_a_simulation_that_is_killed_fails_the_run(tmp_path):
    run = Run(tmp_path, "rounds.count=1000")
    run.await_round(2)

    os.kill(run.processes.named("flwr-simulation"), signal.SIGKILL)
    code, output = run.end()

    assert code == 1, output
    assert "the simulation process died" in output
    assert run.status() == "failed"
    assert run.leaves_nothing()


@pytest.mark.slow
def test_a_superlink_that_was_told_to_end_fails_the_run(tmp_path):
    run = Run(tmp_path, "rounds.count=1000")
    assert wait_until(lambda: run.processes.named("flwr-simulation"), seconds=60)

    # The simulation then waits for ever for the SuperLink, unless it has begun.
    os.kill(run.processes.named("flower-superlink"), signal.SIGTERM)
    os.kill(run.processes.named("flwr-simulation"), signal.SIGSTOP)
    code, output = run.end()

    assert code == 1, output
    assert "SuperLink was told to end" in output
    assert run.leaves_nothing()
