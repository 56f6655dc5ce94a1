"""Running the app under Flower's simulation engine, and ending what that started.

Each run has a SuperLink of its own in a temporary folder: its ``FLWR_HOME``, an empty
working directory (so that server and clients import the bundle, not the project
folder), and Ray's files.
"""

from fedapp.launch.error import LaunchError
from fedapp.launch.job import Job
from fedapp.launch.run_files import (
    POLL_SECONDS,
    OnPoll,
    Progress,
    ensure_report,
    log_file,
    read_json,
    settle,
)
from fedapp.launch.signals import interruptible
from fedapp.launch.simulation import simulate

__all__ = [
    "POLL_SECONDS",
    "Job",
    "LaunchError",
    "OnPoll",
    "Progress",
    "ensure_report",
    "interruptible",
    "log_file",
    "read_json",
    "settle",
    "simulate",
]
