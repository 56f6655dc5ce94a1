"""The guard of a run: a process that cleans up when the launching process is killed.

Its standard input is a pipe that only the launching process can write to. The system
closes it when that process ends, however it ends. A word on it means that all is done.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedapp.launch.cleaning import clean_up
from fedapp.launch.processes import Processes
from fedapp.launch.run_files import ask_to_stop
from fedapp.launch.signals import undisturbed

DONE = b"done"
START = "from fedapp.launch.guard import main; main()"
PATIENCE_SECONDS = 8.0


@contextmanager
def guarded(scratch: Path, run_dir: Path) -> Iterator[None]:
    """Have a guard while the body runs; if this process ends in it, it cleans up."""
    guard = _start(scratch, run_dir, stdin=subprocess.PIPE, patience=0.0)
    try:
        yield
    finally:
        guard.communicate(DONE)


def start_second_guard(scratch: Path, run_dir: Path) -> None:
    """Start a guard for a run whose launching process has died, perhaps with its guard.

    The first guard, if it is there, ends this one together with the run.
    """
    _start(scratch, run_dir, stdin=subprocess.DEVNULL, patience=PATIENCE_SECONDS)


def _start(
    scratch: Path, run_dir: Path, *, stdin: int, patience: float
) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-c", START, str(scratch), str(run_dir), str(patience)],
        cwd=scratch,
        env={**os.environ, "PYTHONPATH": path},
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main() -> None:
    """Wait for the end of the launching process; clean up if it did not."""
    with undisturbed():
        scratch, run_dir = Path(sys.argv[1]), Path(sys.argv[2])
        if sys.stdin.buffer.read() == DONE:
            return
        time.sleep(float(sys.argv[3]))
        ask_to_stop(run_dir)
        clean_up(
            Processes(scratch),
            run_dir,
            status="interrupted",
            error="the process that started the run was killed",
        )
