"""What the system says of processes, by their numbers."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Stat:
    """The session of a process and when it started, in ticks since the boot."""

    session: int
    started: str


def stat_of(pid: int) -> Stat | None:
    """Return what /proc says of a process that runs; None for a zombie or no process.

    Without /proc (macOS) there is nothing for any process; ``exists`` knows then.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:  # gone
        return None
    # The name of the program, in brackets, may hold anything.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else Stat(int(fields[3]), fields[19])


def identity(pid: int) -> str:
    """Return ``pid:start``; a number alone is given to another process after a while.

    The start is empty where there is no /proc.
    """
    stat = stat_of(pid)
    return f"{pid}:{stat.started if stat else ''}"


def runs(who: str) -> bool:
    """Return whether the process of an ``identity`` still runs."""
    pid, _, started = who.partition(":")
    if started:
        stat = stat_of(int(pid))
        return stat is not None and stat.started == started
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
