"""Files of the run folder that the launching process reads and writes."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

Progress = Mapping[str, Any]
OnPoll = Callable[[Progress], None]

FINAL = ("completed", "failed", "interrupted")
POLL_SECONDS = 0.2
STOP_SECONDS = 5.0


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON file's table, or an empty one while there is no such file."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}


def ask_to_stop(run_dir: Path) -> None:
    """Ask the server app to end the run, and wait a little for it to do so.

    A second Ctrl-C ends the waiting.
    """
    if not run_dir.is_dir():
        return
    (run_dir / "stop").touch()
    deadline = time.monotonic() + STOP_SECONDS
    try:
        while time.monotonic() < deadline:
            if read_json(run_dir / "progress.json").get("status") in FINAL:
                return
            time.sleep(POLL_SECONDS / 2)
    except KeyboardInterrupt:
        return


def settle(run_dir: Path, *, status: str, error: str) -> None:
    """Write ``status`` where the server app had no time to write a final one.

    A folder in which another process works, which has resumed the run, is left alone.
    """
    if not run_dir.is_dir():
        return
    with suppress(Timeout), FileLock(run_dir / "lock", timeout=0):
        (run_dir / "stop").unlink(missing_ok=True)
        for name in ("summary.json", "progress.json"):
            found = read_json(run_dir / name)
            if found.get("status") not in FINAL:
                from fedapp.files import write_json  # imports torch, a second

                write_json(run_dir / name, {**found, "status": status, "error": error})


def ensure_report(run_dir: Path) -> None:
    """Write the report if the server app had no time to."""
    if run_dir.is_dir() and not (run_dir / "report.html").exists():
        from fedapp.report.build import try_report  # imports torch, a second

        try_report(run_dir)


def log_file(run_dir: Path) -> Path:
    """Return where the log goes: the run folder, or beside it if there is none."""
    if run_dir.is_dir():
        return run_dir / "log.txt"
    return run_dir.with_name(f"{run_dir.name}.log.txt")
