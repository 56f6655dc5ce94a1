"""Where Flower's programs run and lie, and what they find in their environment."""

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from fedapp.launch.error import LaunchError
from fedapp.proc import identity
from fedapp.watchdog import PARENT


def scratch_folder() -> Path:
    """Make the temporary folder of a run and return it."""
    # Ray's sockets lie in it, and a socket's path may have 107 characters: a
    # long TMPDIR would be too much.
    short = "/tmp" if os.access("/tmp", os.W_OK) else None
    scratch = Path(tempfile.mkdtemp(prefix="fedapp-", dir=short)).resolve()
    for name in ("home", "empty", "ray"):
        (scratch / name).mkdir()
    return scratch


def environment_of(scratch: Path, *, install: bool) -> dict[str, str]:
    """Return the environment of Flower's programs, which keeps them to this run."""
    env = dict(os.environ)
    # With it Ray would join a cluster, which allows no count of CPUs.
    env.pop("RAY_ADDRESS", None)
    # Flower starts its own programs by bare name.
    env["PATH"] = os.pathsep.join([*_program_folders(), env.get("PATH", "")])
    # Flower's HTTP client would ask a proxy for 127.0.0.1.
    for name in ("NO_PROXY", "no_proxy"):
        env[name] = ",".join(filter(None, (env.get(name), "127.0.0.1,localhost")))
    env |= {
        PARENT: identity(os.getpid()),
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


def program(name: str) -> str:
    """Return the path of a program of the environment this code is installed in."""
    found = shutil.which(name, path=os.pathsep.join(_program_folders()))
    if found is None and (found := shutil.which(name)) is None:
        raise LaunchError(f"{name} is not installed beside {sys.executable}")
    return found
