"""The run folder: everything a run leaves behind, in one place.

Others read these files; their layout is a contract, described in docs/run-folder.md.
"""

import csv
import io
import platform
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tomli_w

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


def taken(path: Path) -> str:
    """Return the error line for a run folder that exists."""
    return (
        f"the run folder {path} exists already and is left as it is: "
        "choose another output.name, or move it away"
    )


class RunFolder:
    """A new folder for one run; an existing one is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        try:
            self.path.mkdir(parents=True)
        except FileExistsError:
            raise FileExistsError(taken(self.path)) from None
        except OSError as error:
            raise OSError(
                f"cannot make the run folder {self.path}: {error.strerror}; "
                "choose another output.dir"
            ) from None
        self.started = time.time()
        self._progress: dict[str, Any] = {"status": "running"}
        self._shown = 0.0

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
        with path.open("a", encoding="utf-8", newline="") as stream:
            stream.write(text.getvalue())

    def tensors(self, file: str, payload: Payload) -> None:
        """Write tensors as safetensors."""
        write_tensors(self.path / file, payload)

    def text(self, file: str, text: str) -> None:
        """Write text."""
        write_text(self.path / file, text)

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
