"""The folder of all runs: one run folder for each identity, shared by all tables."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from experiments.identity import identity_of
from experiments.measures import numbers_of
from experiments.table import Cell
from fedapp.config import Scalar, defaults
from fedapp.files import write_json
from fedapp.launch import read_json

RECORD = "experiment.json"
"""In a run folder: written last, so that its presence says that the run is whole."""


@dataclass(frozen=True)
class Run:
    """One cell with one seed; ``data_path`` is a path of this machine, or empty."""

    cell: Cell
    seed: int
    data_path: str
    data_key: str
    code: str
    out: Path

    @cached_property
    def identity(self) -> str:
        """What the result depends on."""
        return identity_of(
            self.cell.settings, seed=self.seed, data_key=self.data_key, code=self.code
        )

    @property
    def name(self) -> str:
        """The name of its run folder."""
        settings = self.cell.settings
        about = f"{settings['method']}-{settings['data.name']}-s{self.seed}"
        return f"{about}-{self.identity[:20]}"

    @property
    def folder(self) -> Path:
        """Its run folder."""
        return self.out / self.name

    @property
    def log(self) -> Path:
        """Where its process writes."""
        return self.out / "logs" / f"{self.name}.txt"

    @property
    def config(self) -> dict[str, Scalar]:
        """The complete flat config."""
        return {
            **defaults(),
            **self.cell.settings,
            "seed": self.seed,
            "data.path": self.data_path,
            "output.dir": str(self.out),
            "output.name": self.name,
        }


@dataclass(frozen=True)
class Result:
    """What is known of a run; ``cause`` says why it failed.

    ``accuracy`` and ``seconds`` are of its summary, ``about`` has commit, versions,
    hardware and data; all empty unless it is finished.
    """

    status: Literal["finished", "failed", "missing"]
    cause: str
    accuracy: Mapping[str, float]
    seconds: float
    about: Mapping[str, Any]


def finished(folder: Path, identity: str) -> bool:
    """Return whether a run folder holds the whole run of this identity."""
    try:
        record, summary = (read_json(folder / f) for f in (RECORD, "summary.json"))
    except ValueError:  # truncated
        return False
    return record.get("identity") == identity and summary.get("status") == "completed"


def record(folder: Path, facts: Mapping[str, Any]) -> None:
    """Declare the run in ``folder`` to be finished."""
    write_json(folder / RECORD, dict(facts))


def result_of(run: Run, cause: str = "") -> Result:
    """Return what came of a run; ``cause`` is why its process failed just now."""
    if finished(run.folder, run.identity):
        summary = read_json(run.folder / "summary.json")
        config = tomllib.loads((run.folder / "config.toml").read_text("utf-8"))
        about = {**read_json(run.folder / RECORD), "versions": config["versions"]}
        total = float(summary["seconds"]["total"])
        return Result("finished", "", numbers_of(summary), total, about)
    if not cause:
        cause = failure_of(run.folder)
    return Result("failed" if cause else "missing", cause, {}, 0.0, {})


def failure_of(folder: Path) -> str:
    """Return why the run in ``folder`` failed, or nothing if it did not."""
    try:
        summary = read_json(folder / "summary.json")
    except ValueError:  # truncated
        return ""
    if summary.get("status") != "failed":
        return ""
    return str(summary.get("error") or "it failed without a word")
