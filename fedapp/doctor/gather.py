"""Facts of this machine, for the checks; nothing here judges."""

import json
import os
import shutil
import socket
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from fedapp.config import project_file
from fedapp.doctor.flower import LOCAL_PORT, Owner
from fedapp.doctor.hardware import Gpus
from fedapp.doctor.room import Place


def wanted() -> tuple[str, dict[str, Requirement]]:
    """Return what the project asks for: of Python, and of packages by name."""
    project = tomllib.loads(project_file().read_text("utf-8"))["project"]
    parsed = [Requirement(text) for text in project["dependencies"]]
    return project["requires-python"], {need.name: need for need in parsed}


def installed(names: list[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def usable_cpus() -> float:
    """Return the CPUs this process may use: by affinity, and by its container."""
    count = float(os.cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):
        count = min(count, len(os.sched_getaffinity(0)))
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        count = min(count, int(quota) / int(period))
    return count


def gpus() -> Gpus:
    """Return what torch sees, and what Ray would, without starting it."""
    import torch

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    seen = None
    with suppress(ImportError, AttributeError):
        # Ray has no public way to ask without starting it.
        from ray._private.accelerators import get_accelerator_manager_for_resource

        manager: Any = get_accelerator_manager_for_resource("GPU")
        there = manager.get_current_node_num_accelerators()
        chosen = manager.get_current_process_visible_accelerator_ids()
        seen = there if chosen is None else min(there, len(chosen))
    driver = Path("/proc/driver/nvidia/version").exists()
    return Gpus(names, driver, torch.version.cuda or "", seen)


def cluster() -> dict[str, float]:
    """Start Ray, return what it has, and stop it."""
    import ray

    ray.init(
        address="local", include_dashboard=False, log_to_driver=False, logging_level=50
    )
    try:
        found: dict[str, float] = ray.cluster_resources()
        return found
    finally:
        ray.shutdown()


def port_owner(port: int = LOCAL_PORT) -> Owner | None:
    """Return who listens on a port, if /proc tells."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if sockets & set(_open_files(folder)):
                pairs = (folder / "environ").read_text("utf-8", "replace").split("\0")
                home = dict(p.partition("=")[::2] for p in pairs).get("FLWR_HOME", "")
                return Owner(int(folder.name), os.readlink(folder / "cwd"), home)
    return None


def _open_files(folder: Path) -> Iterator[str]:
    for link in (folder / "fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            yield os.readlink(link)


def _listening(port: int) -> list[str]:
    """Return the inodes of sockets that listen on a port."""
    found = []
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                cells = line.split()
                if cells[1].endswith(f":{port:04X}") and cells[3] == "0A":
                    found.append(cells[9])
    return found


def answers(port: int) -> bool:
    """Return whether somebody listens on a port of 127.0.0.1."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


def free_port() -> int | None:
    """Return a free port of 127.0.0.1, or None if there is none to be had."""
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])
    except OSError:
        return None


def place(path: Path) -> Place:
    """Return what is known of a folder, or of the one above that exists."""
    there = path.expanduser().absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    return Place(path, there.stat().st_dev, free, os.access(there, os.W_OK))


def is_decoded(cache: Path, name: str, shape: tuple[int, ...]) -> bool:
    """Return whether the cache has a data set of that name, number and size."""
    for about in cache.glob(f"{name}-*/about.json"):
        with suppress(OSError, ValueError):
            if json.loads(about.read_text())["shape"] == list(shape):
                return True
    return False


def temporary_folder() -> Path:
    """Return where a run keeps Flower's and Ray's files."""
    short = Path("/tmp")
    return short if os.access(short, os.W_OK) else Path(tempfile.gettempdir())


def available_memory() -> int | None:
    """Return the bytes of memory that may still be used, if the system says."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        found.append(1024 * int(line.split()[1]))
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        found.append(limit - int((group / "memory.current").read_text()))
    return min(found) if found else None


def shared_memory() -> int | None:
    """Return the free bytes of /dev/shm, if there is one."""
    try:
        return shutil.disk_usage("/dev/shm").free
    except OSError:
        return None
