"""Following a run until it ends, or until something it needs has died."""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedapp.launch.error import LaunchError
from fedapp.launch.logs import tail
from fedapp.launch.processes import Processes
from fedapp.launch.run_files import FINAL, POLL_SECONDS, OnPoll, read_json
from fedapp.launch.superlink import listens
from fedapp.proc import stat_of

LOG_SECONDS = 1.0
STILL_SECONDS = 20.0


@dataclass
class Engine:
    """What runs: its SuperLink, ``flwr run``, and the simulation, once it is found."""

    processes: Processes
    port: int
    superlink: subprocess.Popen[bytes]
    client: subprocess.Popen[bytes]
    simulation: int | None = None

    def death(self, *, still: float) -> str | None:
        """Return what has ended, in words, or None while all is well.

        ``still`` is for how many seconds there was no progress.
        """
        if self.superlink.poll() is not None:
            return f"Flower's SuperLink died (exit code {self.superlink.returncode})"
        if self.client.poll() is not None:
            if self.client.returncode:
                return "Flower refused the run"
            return "the run ended without a result"
        if self.simulation is None:
            self.simulation = self.processes.named("flwr-simulation")
        elif stat_of(self.simulation) is None:
            # Flower itself needs a minute to notice.
            return "the simulation process died (was it out of memory?)"
        if still > STILL_SECONDS and not listens(self.port):
            # On SIGTERM it closes its port, then waits for ever for `flwr run`.
            return "Flower's SuperLink was told to end"
        return None


def follow(engine: Engine, run_dir: Path, on_poll: OnPoll) -> None:
    """Return when the run folder says that the run has ended."""
    progress, moved, death = dict[str, Any](), time.monotonic(), None
    while death is None and progress.get("status") not in FINAL:
        time.sleep(POLL_SECONDS)
        still = time.monotonic() - moved
        # In this order: a result that was there before the death counts.
        death = engine.death(still=still)
        latest = read_json(run_dir / "progress.json")
        if latest != progress:
            progress, moved = latest, time.monotonic()
        on_poll(progress or {"status": "starting", "stage": "starting the simulation"})
    _let_log_end(engine.client)
    if progress.get("status") not in FINAL:
        # The simulation may have ended in order a moment before `flwr run` did.
        death = engine.death(still=still) or death
        log = "run.log" if engine.superlink.poll() is None else "superlink.log"
        raise LaunchError(f"{death}\n{tail(engine.processes.scratch / log)}")


def _let_log_end(client: subprocess.Popen[bytes]) -> None:
    try:
        client.wait(LOG_SECONDS)
    except subprocess.TimeoutExpired:
        return
