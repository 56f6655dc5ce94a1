"""The processes of a run, found and ended."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_run import wait_until

from fedapp.launch.processes import Processes


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    (tmp_path / "empty").mkdir()
    found = Processes(tmp_path)
    yield found
    found.end()


def start(processes: Processes, script: str) -> subprocess.Popen[bytes]:
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
