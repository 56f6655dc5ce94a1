"""The logs of Flower's programs."""

import re
from pathlib import Path

from fedapp.launch.run_files import log_file

TAIL_LINES = 15
LOGS = ("run.log", "superlink.log")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def lines_of(log: Path) -> list[str]:
    """Return the lines of a log, without colours and Flower's every request."""
    if not log.exists():
        return []
    text = _COLOUR.sub("", log.read_text("utf-8", errors="replace"))
    return [line for line in text.splitlines() if "[uvicorn.access]" not in line]


def tail(log: Path) -> str:
    """Return the last lines of a log."""
    return "\n".join(lines_of(log)[-TAIL_LINES:])


def keep_log(scratch: Path, run_dir: Path) -> None:
    """Keep the logs of a run with its run folder."""
    lines = [line for name in LOGS for line in lines_of(scratch / name)]
    target = log_file(run_dir)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
