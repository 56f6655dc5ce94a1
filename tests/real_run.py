"""A real ``fedapp run`` in a process of its own."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from fedapp import launch
from fedapp.launch.processes import Processes

TINY = ["fedavg", "data.clients=3", "rounds.evaluate-every=1"]


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
            # A shell starts what it puts in the background with interrupts ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        self.scratch = wait_until(self._find_scratch, seconds=60)
        assert self.scratch, "no SuperLink was started"
        self.processes = Processes(self.scratch)

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

    def guard(self) -> int:
        """Return the number of its guard."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        pids = [int(pid) for file in children for pid in file.read_text().split()]
        (guard,) = [pid for pid in pids if pid not in self.processes.running()]
        return guard

    def workers(self) -> list[int]:
        """Return the numbers of the processes that train clients."""
        names = {pid: _command(pid) for pid in self.processes.running()}
        return [pid for pid, name in names.items() if "ClientAppActor" in name]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # gone meanwhile
        return ""


def wait_until(condition, *, seconds: float = 10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    return None
