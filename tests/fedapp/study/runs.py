"""Settings of runs to study, and how to make and open one."""

from pathlib import Path

from conftest import TINY, Finished

from fedapp.config import defaults
from fedapp.inline import run_inline
from fedapp.study.bench import Bench
from fedapp.study.opening import open_bench
from fedapp.study.place import find

FULL = {"hdc-fl.activation": "always", "data.clients": 8, "rounds.count": 4}
PARTIAL = FULL | {
    "rounds.fraction": 0.5,
    "rounds.count": 2,
    "data.unseen-clients": 1,
    "hdc-fl.temperature": 0.5,
    "hdc-fl.mix": 0.75,
}
"""Some clients never train by chance, one by the settings."""
STABLE = {"hdc-fl.force-final": False, "hdc-fl.min-head-change": 1e9}
"""Personal encoders are never used."""


def make(folder: Path, **settings: object) -> Finished:
    output = {"method": "hdc-fl", "output.dir": str(folder), "output.name": "run"}
    run_inline(defaults() | TINY | settings | output)
    return Finished(folder / "run")


def bench_of(run: Finished, round: int | None = None) -> Bench:
    return open_bench(find(run.path, round=round, data_path=""))
