"""The processes of one run: starting them, finding them, ending them."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

END_SECONDS = 10.0


class Processes:
    """The processes of one run, those that Flower and Ray start included.

    They are found in /proc by what they inherit: ``FLWR_HOME`` in their environment,
    or the session of a process that had it. Both are needed: SuperLink and SuperExec
    open sessions of their own, and Ray's workers overwrite their environment with
    their title. Without /proc (macOS) only our own children are found; Flower's and
    Ray's watch over parent processes then ends the others.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self._marker = f"FLWR_HOME={scratch / 'home'}".encode()
        self._children: list[subprocess.Popen[bytes]] = []
        self._sessions: set[int] = set()

    def start(
        self, command: list[str], *, log: str, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a program in the empty folder; the terminal's Ctrl-C is not for it."""
        with (self.scratch / log).open("ab") as stream:
            child = subprocess.Popen(
                command,
                cwd=self.scratch / "empty",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children.append(child)
        self._sessions.add(child.pid)
        return child

    def running(self) -> list[int]:
        """Return the ids of all processes that run."""
        seen = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                session = session_of(folder)
                if session and self._marker in (folder / "environ").read_bytes():
                    self._sessions.add(session)
            except OSError:  # gone meanwhile, or of another user
                continue
            seen.append((int(folder.name), session))
        return [pid for pid, session in seen if session in self._sessions]

    def named(self, program: str) -> int | None:
        """Return the id of the process that runs ``program``, if there is one."""
        for pid in self.running():
            try:
                if program.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
            except OSError:  # gone meanwhile
                continue
        return None

    def end(self) -> None:
        """Kill them all, those started meanwhile too."""
        deadline = time.monotonic() + END_SECONDS
        while (left := self.running()) and time.monotonic() < deadline:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        for child in self._children:
            child.kill()
            child.wait()


def session_of(folder: Path) -> int | None:
    """Return the session of a process by its folder in /proc; None for a zombie."""
    # The name of the program, in brackets, may hold anything.
    state, _, _, session = (
        (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:4]
    )
    return None if state in "ZX" else int(session)


def alive(pid: int) -> bool:
    """Return whether a process runs, by /proc."""
    try:
        return session_of(Path(f"/proc/{pid}")) is not None
    except OSError:
        return False
