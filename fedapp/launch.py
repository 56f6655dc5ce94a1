"""Running the app under Flower's simulation engine, and ending what that started.

Each run has a SuperLink of its own in a temporary folder: its ``FLWR_HOME``, an empty
working directory (so that server and clients import the bundle, not the project
folder), and Ray's files.
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import tomli_w

from fedapp.config import Scalar, defaults, project_file

Progress = Mapping[str, Any]
OnPoll = Callable[[Progress], None]

FINAL = ("completed", "failed", "interrupted")
POLL_SECONDS = 0.2
START_SECONDS = 90.0
STOP_SECONDS = 5.0
END_SECONDS = 10.0
LOG_SECONDS = 1.0
STILL_SECONDS = 20.0
TAIL_LINES = 15
CONNECTION = "fedapp"
LOGS = ("run.log", "superlink.log")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class LaunchError(RuntimeError):
    """Flower did not start, refused the run or died; the message shows its log."""


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
                session = _session(folder)
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


def _session(folder: Path) -> int | None:
    """Return the session of a process by its folder in /proc; None for a zombie."""
    # The name of the program, in brackets, may hold anything.
    state, _, _, session = (
        (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:4]
    )
    return None if state in "ZX" else int(session)


def _alive(pid: int) -> bool:
    try:
        return _session(Path(f"/proc/{pid}")) is not None
    except OSError:
        return False


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run to be simulated.

    ``overrides`` are settings by dotted name, paths absolute; ``run_dir`` is the
    folder that the server app will make of ``output.dir`` and ``output.name``.
    """

    overrides: Mapping[str, Scalar]
    clients: int
    workers: int | None
    gpus_per_client: float
    run_dir: Path
    install_dependencies: bool


def simulate(job: Job, on_poll: OnPoll) -> None:
    """Run ``job`` to its end; what came of it stands in its run folder.

    ``on_poll`` gets the latest progress, five times a second. However this ends, no
    process of the run is left, its log is in the run folder, and the run folder, if
    there is one, has a final status.

    Raises
    ------
    LaunchError
        Flower did not start, refused the run or died.
    KeyboardInterrupt
        On Ctrl-C, once the run has ended.
    """
    scratch = _scratch_folder()
    processes = Processes(scratch)
    status, error = "failed", "the run ended without a result"
    try:
        _run(job, processes, on_poll)
    except LaunchError as problem:
        error = str(problem).partition("\n")[0]
        raise
    except KeyboardInterrupt:
        status, error = "interrupted", "interrupted"
        ask_to_stop(job.run_dir)
        raise
    finally:
        with _undisturbed():
            processes.end()
            settle(job.run_dir, status=status, error=error)
            if status == "failed" or job.run_dir.is_dir():
                _keep_log(scratch, job.run_dir)
            shutil.rmtree(scratch, ignore_errors=True)
        if job.overrides.get("output.report", defaults()["output.report"]):
            ensure_report(job.run_dir)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP too; main thread only."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore signals while cleaning up, so that an impatient Ctrl-C leaves nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _scratch_folder() -> Path:
    # Ray's sockets lie in it, and a socket's path may have 107 characters: a
    # long TMPDIR would be too much.
    short = "/tmp" if os.access("/tmp", os.W_OK) else None
    scratch = Path(tempfile.mkdtemp(prefix="fedapp-", dir=short)).resolve()
    for name in ("home", "empty", "ray"):
        (scratch / name).mkdir()
    return scratch


def _run(job: Job, processes: Processes, on_poll: OnPoll) -> None:
    port = _free_port()
    environment = _environment(processes.scratch, install=job.install_dependencies)
    superlink = processes.start(
        _superlink_command(port), log="superlink.log", environment=environment
    )
    _await_superlink(superlink, processes.scratch, port=port, on_poll=on_poll)
    client = processes.start(
        _run_command(job, processes.scratch, port=port),
        log="run.log",
        environment=environment,
    )
    _follow(_Engine(processes, port, superlink, client), job.run_dir, on_poll)


def _environment(scratch: Path, *, install: bool) -> dict[str, str]:
    env = dict(os.environ)
    # With it Ray would join a cluster, which allows no count of CPUs.
    env.pop("RAY_ADDRESS", None)
    # Flower starts its own programs by bare name.
    env["PATH"] = os.pathsep.join([*_program_folders(), env.get("PATH", "")])
    # Flower's HTTP client would ask a proxy for 127.0.0.1.
    for name in ("NO_PROXY", "no_proxy"):
        env[name] = ",".join(filter(None, (env.get(name), "127.0.0.1,localhost")))
    env |= {
        "FLWR_HOME": str(scratch / "home"),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "0" if install else "1",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "RAY_TMPDIR": str(scratch / "ray"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONUNBUFFERED": "1",
    }
    return env


def _program_folders() -> list[str]:
    return [os.path.dirname(sys.executable), sysconfig.get_path("scripts")]


def _program(name: str) -> str:
    """Return the path of a program of the environment this code is installed in."""
    found = shutil.which(name, path=os.pathsep.join(_program_folders()))
    if found is None and (found := shutil.which(name)) is None:
        raise LaunchError(f"{name} is not installed beside {sys.executable}")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _superlink_command(port: int) -> list[str]:
    command = [_program("flower-superlink"), "--insecure", "--simulation"]
    command += ["--isolation", "subprocess"]
    return [*command, "--host", "127.0.0.1", "--port", str(port)]


def _await_superlink(
    superlink: subprocess.Popen[bytes], scratch: Path, *, port: int, on_poll: OnPoll
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _healthy(port):
        on_poll({"status": "starting", "stage": "starting Flower"})
        log = scratch / "superlink.log"
        if superlink.poll() is not None:
            raise LaunchError(
                f"Flower's SuperLink did not start: it ended with exit code "
                f"{superlink.returncode}\n{_tail(log)}"
            )
        if time.monotonic() > deadline:
            raise LaunchError(
                f"Flower's SuperLink did not answer on 127.0.0.1:{port} within "
                f"{START_SECONDS:.0f} s; is this machine overloaded?\n{_tail(log)}"
            )
        time.sleep(0.1)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _run_command(job: Job, scratch: Path, *, port: int) -> list[str]:
    """Return ``flwr run``, which prints the log of the run and ends with it."""
    address = {"address": f"127.0.0.1:{port}", "insecure": True}
    (scratch / "home" / "config.toml").write_text(
        tomli_w.dumps({"superlink": {CONNECTION: address}}), encoding="utf-8"
    )
    overrides = scratch / "overrides.toml"
    overrides.write_text(tomli_w.dumps(dict(job.overrides)), encoding="utf-8")
    workers = job.workers or min(os.cpu_count() or 1, job.clients)
    federation = f"num-supernodes={job.clients} init-args-num-cpus={workers}"
    federation += " client-resources-num-cpus=1"
    federation += f" client-resources-num-gpus={job.gpus_per_client}"
    command = [_program("flwr"), "run", str(_app_folder(scratch)), CONNECTION]
    command += ["--stream", "--run-config", str(overrides)]
    return [*command, "--federation-config", federation]


def _app_folder(scratch: Path) -> Path:
    """Return the folder to bundle: the project, or a copy made from a wheel's files."""
    project = project_file()
    package = Path(__file__).resolve().parent
    if project.parent != package:
        return project.parent
    staged = scratch / "app"
    staged.mkdir()
    shutil.copy(project, staged)
    for name in ("fedapp", "strategies", "client_apps"):
        shutil.copytree(package.parent / name, staged / name)
    return staged


@dataclass
class _Engine:
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
        elif not _alive(self.simulation):
            # Flower itself needs a minute to notice.
            return "the simulation process died (was it out of memory?)"
        if still > STILL_SECONDS and not _listens(self.port):
            # On SIGTERM it closes its port, then waits for ever for `flwr run`.
            return "Flower's SuperLink was told to end"
        return None


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except ConnectionRefusedError:
        return False
    except OSError:  # busy, perhaps
        return True
    return True


def _follow(engine: _Engine, run_dir: Path, on_poll: OnPoll) -> None:
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
        raise LaunchError(f"{death}\n{_tail(engine.processes.scratch / log)}")


def _let_log_end(client: subprocess.Popen[bytes]) -> None:
    try:
        client.wait(LOG_SECONDS)
    except subprocess.TimeoutExpired:
        return


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON file's table, or an empty one while there is no such file."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}


def _lines(log: Path) -> list[str]:
    """Return the lines of a log, without colours and Flower's every request."""
    if not log.exists():
        return []
    text = _COLOUR.sub("", log.read_text("utf-8", errors="replace"))
    return [line for line in text.splitlines() if "[uvicorn.access]" not in line]


def _tail(log: Path) -> str:
    return "\n".join(_lines(log)[-TAIL_LINES:])


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
    """Write ``status`` where the server app had no time to write a final one."""
    if not run_dir.is_dir():
        return
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


def _keep_log(scratch: Path, run_dir: Path) -> None:
    lines = [line for name in LOGS for line in _lines(scratch / name)]
    target = log_file(run_dir)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def log_file(run_dir: Path) -> Path:
    """Return where the log goes: the run folder, or beside it if there is none."""
    if run_dir.is_dir():
        return run_dir / "log.txt"
    return run_dir.with_name(f"{run_dir.name}.log.txt")
