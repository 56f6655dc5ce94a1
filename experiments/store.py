"""The folder of all runs: one run folder for each identity, shared by all tables."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from experiments.found import found_in
from experiments.identity import identity_of
from experiments.measures import Numbers
from experiments.studies import Need, numbers_of, there
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
    more: frozenset[Need] = frozenset()
    """What other cells need that show this run."""

    @property
    def needs(self) -> frozenset[Need]:
        """The studies that must be there beside the run."""
        return self.more | ({self.cell.need} if self.cell.need else set())

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        whole = finished(self.folder, self.identity)
        return whole and all(there(self.folder, need) for need in self.needs)

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

    ``numbers`` are those its cell shows, ``seconds`` are of its summary, ``about`` has
    commit, versions, hardware and data, ``bytes`` are those of its training, both ways;
    all empty unless it is finished.
    """

    status: Literal["finished", "failed", "missing"]
    cause: str
    numbers: Numbers
    seconds: float
    about: Mapping[str, Any]
    bytes: int = 0


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
    if run.done:
        summary = read_json(run.folder / "summary.json")
        numbers = _numbers(run, summary)
        config = tomllib.loads((run.folder / "config.toml").read_text("utf-8"))
        about = {**read_json(run.folder / RECORD), "versions": config["versions"]}
        total = float(summary["seconds"]["total"])
        traffic = summary["traffic"]
        bytes_ = traffic["down_bytes"] + traffic["up_bytes"]
        return Result("finished", "", numbers, total, about, bytes_)
    if not cause:
        cause = failure_of(run.folder)
    return Result("failed" if cause else "missing", cause, {}, 0.0, {})


def _numbers(run: Run, summary: Mapping[str, Any]) -> Numbers:
    """Return the numbers of a run that is done: what it found, or what a study did."""
    cell = run.cell
    if not cell.need:
        return found_in(run.folder, summary)
    return numbers_of(run.folder, cell.measure, cell.variant) or {}


def failure_of(folder: Path) -> str:
    """Return why the run in ``folder`` failed, or nothing if it did not."""
    try:
        summary = read_json(folder / "summary.json")
    except ValueError:  # truncated
        return ""
    if summary.get("status") != "failed":
        return ""
    return str(summary.get("error") or "it failed without a word")


def merged(runs: Iterable[Run]) -> list[Run]:
    """Return each run once, with all that cells need that show it.

    It is called by the cell whose settings it has.
    """
    found: dict[str, Run] = {}
    for run in runs:
        before = found.get(run.name, run)
        owner = run if before.cell.same_as else before
        found[run.name] = replace(owner, more=before.needs | run.needs)
    return list(found.values())
