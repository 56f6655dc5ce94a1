"""A SuperLink and SuperNodes as real processes on loopback, for tests."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tomli_w
from PIL import Image
from sklearn.datasets import load_digits

from fedapp.config import Scalar, project_file
from fedapp.launch.processes import Processes

PROGRAMS = Path(sys.executable).parent
NAME = "loopback"
MARK = "FEDAPP_TEST_NODE"
RUN_SECONDS = 240.0

QUICK = {
    "data.clients": 2,
    "model.name": "mlp",
    "rounds.count": 2,
    "rounds.evaluate-every": 1,
    "rounds.wait-seconds": 60.0,
}


def make_images(
    folder: Path,
    *,
    first: int,
    count: int = 200,
    size: int = 8,
    label: Callable[[int], str] = str,
) -> Path:
    """Write digits ``first``, ``first + 1``, ... as images in class folders."""
    bunch = load_digits()
    for index in range(first, first + count):
        pixels = (bunch.images[index] * (255 / 16)).astype("uint8")
        home = folder / label(int(bunch.target[index]))
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).resize((size, size)).save(home / f"{index}.png")
    return folder


class Federation:
    """Processes of one federation, all under ``scratch``, all on 127.0.0.1."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        for name in ("home", "empty", "user"):
            (scratch / name).mkdir()
        self.processes = Processes(scratch)
        self.port = free_port()
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        address = {"address": f"127.0.0.1:{self.port}", "insecure": True}
        (scratch / "home" / "config.toml").write_text(
            tomli_w.dumps({"superlink": {NAME: address}})
        )
        words = ["--insecure", "--host", "127.0.0.1", "--port", str(self.port)]
        self._start("flower-superlink", *words, log="superlink.log")
        wait_until(lambda: listens(self.port), seconds=60)

    def add(self, log: str, **node: str | int) -> None:
        """Start a SuperNode with a node config; underscores stand for hyphens."""
        config = " ".join(
            f"{key.replace('_', '-')}={json.dumps(value)}"
            for key, value in node.items()
        )
        self.nodes[log] = self._start(
            "flower-supernode",
            *("--insecure", "--superlink", f"127.0.0.1:{self.port}"),
            *("--port", str(free_port()), "--node-config", config),
            log=f"{log}.log",
            **{MARK: log},
        )

    def add_device(self, name: str, images: Path, **more: str | int) -> None:
        """Start a SuperNode with an id and images."""
        self.add(name, client_id=name, data_path=str(images), **more)

    def kill(self, log: str) -> None:
        """Kill a SuperNode and what it started, as a power cut does."""
        self.signal(log, signal.SIGKILL)
        self.nodes.pop(log).wait()

    def signal(self, log: str, number: int) -> None:
        """Send a signal to a SuperNode and then to what it started."""
        os.kill(self.nodes[log].pid, number)
        mark = f"{MARK}={log}".encode()
        for pid in self.processes.running():
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes():
                    os.kill(pid, number)

    def start_run(self, method: str, name: str = "run", **settings: Scalar) -> Path:
        """Start ``flwr run`` and return the run folder that will be."""
        changed = {
            k.replace("__", ".").replace("_", "-"): v for k, v in settings.items()
        }
        output = {"output.dir": str(self.scratch / "runs"), "output.name": name}
        overrides = self.scratch / f"{name}.toml"
        overrides.write_text(
            tomli_w.dumps({"method": method, **QUICK, **changed, **output})
        )
        words = ["run", str(project_file().parent), NAME, "--stream"]
        self._start("flwr", *words, "--run-config", str(overrides), log=f"{name}.log")
        return self.scratch / "runs" / name

    def run(self, method: str, name: str = "run", **settings: Scalar) -> dict[str, Any]:
        """Run to the end and return the summary."""
        return self.finish(self.start_run(method, name, **settings))

    def finish(self, folder: Path) -> dict[str, Any]:
        """Wait for the end of a run and return its summary."""
        wait_until((folder / "summary.json").exists, seconds=RUN_SECONDS)
        return json.loads((folder / "summary.json").read_text())

    def await_round(self, folder: Path, round_: int) -> None:
        """Wait until a run's progress says that ``round_`` was evaluated."""
        wait_until(
            lambda: progress(folder).get("evaluated", 0) >= round_, seconds=RUN_SECONDS
        )

    def memories(self, run: str) -> dict[str, dict[str, bytes]]:
        """Return, by client id, the files of all memories of a run."""
        folders = [self.scratch / "anna", self.scratch / "user/.fedapp/memory"]
        homes = [h for f in folders for h in f.glob(f"{run}-*/*")]
        return {
            home.name: {str(f.relative_to(home)): f.read_bytes() for f in files(home)}
            for home in homes
        }

    def log(self, name: str) -> str:
        """Return what a process wrote so far."""
        return (self.scratch / f"{name}.log").read_text(errors="replace")

    def _start(
        self, program: str, *words: str, log: str, **extra: str
    ) -> subprocess.Popen[bytes]:
        command = [str(PROGRAMS / program), *words]
        environment = {**self._environment(), **extra}
        return self.processes.start(command, log=log, environment=environment)

    def _environment(self) -> Mapping[str, str]:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        path = os.pathsep.join([str(PROGRAMS), env.get("PATH", "")])
        return env | {
            "PATH": path,
            "HOME": str(self.scratch / "user"),
            "FEDAPP_CACHE": str(self.scratch / "cache"),
            "FLWR_HOME": str(self.scratch / "home"),
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "PYTHONUNBUFFERED": "1",
        }


@contextmanager
def federation(scratch: Path) -> Iterator[Federation]:
    """Give a SuperLink without nodes; at the end no process is left."""
    found = Federation(scratch)
    try:
        yield found
    finally:
        found.processes.end()
        assert found.processes.running() == []


def files(folder: Path) -> list[Path]:
    """Return all files below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Return whether somebody answers on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def progress(folder: Path) -> dict[str, Any]:
    """Return what a run says of itself, nothing before it has begun."""
    try:
        return json.loads((folder / "progress.json").read_text())
    except FileNotFoundError:
        return {}


def wait_until(happened: Callable[[], bool], *, seconds: float) -> None:
    """Wait for something, at most ``seconds``."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)
