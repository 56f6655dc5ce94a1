"""The run folder: everything a run leaves behind, in one place.

Others read these files; their layout is a contract, described in docs/run-folder.md.
"""

import csv
import io
import json
import os
import platform
import time
import tomllib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tomli_w
from filelock import FileLock, Timeout

from fedapp.config import flatten
from fedapp.files import write_json, write_tensors, write_text
from fedapp.params import Payload

METRICS = (
    "round",
    "phase",
    "client",
    "model",
    "examples",
    "loss",
    "accuracy",
    "trained",
    "last_trained_round",
)
TIMING = ("round", "phase", "client", "seconds")


FREE = (
    "output.dir",
    "output.name",
    "output.resume",
    "output.report",
    "data.path",
    "rounds.wait-seconds",
    "rounds.reply-seconds",
    "checkpoint.every",
)
"""Settings that a resumed run may have otherwise: no bit of a result hangs on them."""


class RunFolder:
    """The folder of one run, locked while a process works in it.

    A new run refuses a folder that exists; a resumed one refuses a folder that is
    missing or has a completed run.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.path = path.absolute()
        if resume:
            check_resumable(self.path)
        else:
            _make(self.path)
        self._lock = locked(self.path)
        self.resumed = resume
        self._progress: dict[str, Any] = {"status": "running"}
        self._shown = 0.0

    def close(self) -> None:
        """Let another process work in the folder."""
        self._lock.release()

    def write_config(self, flat: Mapping[str, Any], *, commit: str) -> None:
        """Write every setting, resolved, with versions and commit, as TOML."""
        nested: dict[str, Any] = {}
        for name, value in flat.items():
            table, _, key = name.rpartition(".")
            (nested.setdefault(table, {}) if table else nested)[key] = value
        nested["versions"] = {**_versions(), "commit": commit}
        write_text(self.path / "config.toml", tomli_w.dumps(nested))

    def row(self, file: str, row: Mapping[str, Any]) -> None:
        """Append one row to a CSV file, with a header if it is new."""
        path = self.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(row), lineterminator="\n")
        if not path.exists():
            writer.writeheader()
        writer.writerow(row)
        size = path.stat().st_size if path.exists() else 0
        try:
            with path.open("a", encoding="utf-8", newline="") as stream:
                stream.write(text.getvalue())
        except OSError as error:
            # Half a row would make the whole table unreadable.
            if path.exists():
                os.truncate(path, size)
            raise OSError(f"cannot write {path}: {error.strerror}") from error

    def tables(self) -> dict[str, int]:
        """Return the size in bytes of every CSV file, after it has reached the disk."""
        sizes = {}
        for path in self._csv_files():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
            sizes[path.relative_to(self.path).as_posix()] = path.stat().st_size
        return sizes

    def truncate(self, tables: Mapping[str, int]) -> None:
        """Cut every CSV file to the size in ``tables``; delete those not named there.

        Raises
        ------
        ValueError
            If a table is gone or shorter than that.
        """
        for path in self._csv_files():
            if path.relative_to(self.path).as_posix() not in tables:
                path.unlink()
        for name, size in tables.items():
            path = self.path / name
            if not path.is_file() or path.stat().st_size < size:
                raise ValueError(
                    f"{path} is shorter than when its round was committed: it was "
                    "changed by hand; start a new run"
                )
            os.truncate(path, size)

    def tensors(self, file: str, payload: Payload) -> None:
        """Write tensors as safetensors."""
        write_tensors(self.path / file, payload)

    def _csv_files(self) -> list[Path]:
        return sorted([*self.path.glob("*.csv"), *self.path.glob("*/*.csv")])

    def text(self, file: str, text: str) -> None:
        """Write text."""
        write_text(self.path / file, text)

    def summary(self) -> dict[str, Any]:
        """Return summary.json, or nothing if there is none."""
        try:
            found = json.loads((self.path / "summary.json").read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def json(self, file: str, value: Any) -> None:
        """Write JSON."""
        write_json(self.path / file, value)

    def progress(self, *, lazily: bool = False, **news: Any) -> None:
        """Update progress.json, which a display may poll: keys stay until replaced.

        ``lazily`` writes only if the last writing is 0.2 s ago.
        """
        self._progress |= news
        if lazily and time.monotonic() - self._shown < 0.2:
            return
        write_json(self.path / "progress.json", self._progress)
        self._shown = time.monotonic()


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in (
        "fedapp",
        "flwr",
        "ray",
        "torch",
        "torchvision",
        "numpy",
        "scikit-learn",
    ):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        raise FileExistsError(taken(path)) from None
    except OSError as error:
        raise OSError(
            f"cannot make the run folder {path}: {error.strerror}; choose another "
            "output.dir"
        ) from None


def taken(path: Path) -> str:
    """Return what is said when a new run's folder exists."""
    return (
        f"the run folder {path} exists already and is left as it is: choose another "
        "output.name, move it away, or go on with it: fedapp run --resume"
    )


def read_config(path: Path) -> dict[str, Any]:
    """Return every setting of the run in ``path`` by dotted name."""
    nested = tomllib.loads((path / "config.toml").read_text("utf-8"))
    nested.pop("versions", None)
    return flatten(nested)


def check_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise ValueError if a setting that matters is not what the run began with."""
    differing = [
        f"{name} is {now.get(name)!r}, but the run began with {before.get(name)!r}"
        for name in sorted(before.keys() | now.keys())
        if name not in FREE and before.get(name) != now.get(name)
    ]
    if differing:
        raise ValueError("cannot resume:\n  " + "\n  ".join(differing))


def check_free(path: Path) -> None:
    """Raise RuntimeError if a process is working in the run folder ``path``."""
    locked(path).release()


def locked(path: Path) -> FileLock:
    """Return the lock of the run folder ``path``, taken; RuntimeError if in use."""
    lock = FileLock(path / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RuntimeError(
            f"another process is working in {path}; wait for it or stop it"
        ) from None
    return lock


def check_resumable(path: Path) -> None:
    """Raise ValueError if ``path`` is no run folder, or its run has completed."""
    if not (path / "config.toml").is_file():
        raise ValueError(f"{path} is not a run folder: it has no config.toml")
    try:
        summary = json.loads((path / "summary.json").read_text("utf-8"))
    except (OSError, ValueError):
        return
    if summary.get("status") == "completed":
        raise ValueError(f"the run in {path} has completed: there is nothing to resume")
