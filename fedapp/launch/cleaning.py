"""Leaving nothing behind but the run folder."""

import shutil
from pathlib import Path

from fedapp.launch.logs import keep_log
from fedapp.launch.processes import Processes
from fedapp.launch.run_files import settle


def clean_up(processes: Processes, run_dir: Path, *, status: str, error: str) -> None:
    """End all processes of a run, keep its log, give its folder a final status."""
    processes.end()
    settle(run_dir, status=status, error=error)
    if status == "failed" or run_dir.is_dir():
        keep_log(processes.scratch, run_dir)
    shutil.rmtree(processes.scratch, ignore_errors=True)
