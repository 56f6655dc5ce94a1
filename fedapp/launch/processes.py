"""The processes of one run: starting them, finding them, ending them."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fedapp.proc import stat_of

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
        """Return the ids of all processes that run, but for this one."""
        seen = []
        for folder in Path("/proc").glob("[0-9]*"):
            pid = int(folder.name)
            stat = stat_of(pid)
            if stat is None or pid == os.getpid():
                continue
            seen.append((pid, stat.session))
            with suppress(OSError):  # gone meanwhile, or of another user
                if self._marker in (folder / "environ").read_bytes():
                    self._sessions.add(stat.session)
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
