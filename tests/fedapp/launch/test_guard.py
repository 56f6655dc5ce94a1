"""The guard: what it does when the launching process is killed, and when not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from real_run import wait_until

from fedapp import launch
from fedapp.launch.processes import Processes

LAUNCHING = """
import os, sys, time
from pathlib import Path
from fedapp.launch.guard import guarded
from fedapp.launch.processes import Processes
scratch, run_dir = Path(sys.argv[1]), Path(sys.argv[2])
with guarded(scratch, run_dir):
    env = {**os.environ, "FLWR_HOME": str(scratch / "home")}
    command = ["sh", "-c", sys.argv[3], "", str(run_dir)]
    Processes(scratch).start(command, log="run.log", environment=env)
    sys.stdin.read()
"""
SERVER_APP = """
echo hello; setsid sleep 95 &
until [ -e "$1/stop" ]; do sleep 0.1; done
echo '{"status": "interrupted", "round": 4}' > "$1/progress.json"
cp "$1/progress.json" "$1/summary.json"; sleep 94
"""


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Scratch folder and run folder of a run that runs."""
    scratch, run_dir = tmp_path / "scratch", tmp_path / "run"
    (scratch / "empty").mkdir(parents=True)
    run_dir.mkdir()
    (run_dir / "progress.json").write_text('{"status": "running", "round": 3}')
    return scratch, run_dir


def launching(scratch: Path, run_dir: Path) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", LAUNCHING, str(scratch), str(run_dir), SERVER_APP],
        stdin=subprocess.PIPE,
    )
    assert wait_until(lambda: Processes(scratch).named("95"))
    return child


def ignores(pid: int, number: int) -> bool:
    """Return whether a process ignores a signal, once it had time to say so."""

    def ignored() -> bool:
        status = Path(f"/proc/{pid}/status").read_text()
        mask = int(status.partition("SigIgn:")[2].split()[0], 16)
        return bool(mask >> (number - 1) & 1)

    return bool(wait_until(ignored, seconds=5))


def test_a_killed_launching_process_leaves_nothing_but_the_run_folder(places):
    scratch, run_dir = places
    child = launching(scratch, run_dir)
    processes = Processes(scratch)

    child.send_signal(signal.SIGKILL)
    child.communicate()

    assert wait_until(lambda: not scratch.exists(), seconds=20)
    assert processes.running() == []
    interrupted = {"status": "interrupted", "round": 4}
    assert launch.read_json(run_dir / "progress.json") == interrupted
    assert not (run_dir / "stop").exists()
    assert (run_dir / "log.txt").read_text() == "hello\n"


def test_an_end_in_order_is_not_the_guards_business(places):
    scratch, run_dir = places
    child = launching(scratch, run_dir)
    processes = Processes(scratch)

    child.communicate()

    assert child.returncode == 0
    assert launch.read_json(run_dir / "progress.json")["status"] == "running"
    assert processes.named("95")
    processes.end()


def test_the_guard_outlives_a_signal_to_all(places):
    scratch, run_dir = places[0], places[1] / "none"
    child = launching(scratch, run_dir)
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text()
    guard = next(int(p) for p in children.split() if ignores(int(p), signal.SIGTERM))
    os.kill(guard, signal.SIGTERM)
    child.send_signal(signal.SIGKILL)
    child.communicate()

    assert wait_until(lambda: not scratch.exists(), seconds=20)
