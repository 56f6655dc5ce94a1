"""Table files, runs and results to test the experiment runner with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from experiments.store import Result, Run
from experiments.table import Cell, Table, read_table
from fedapp.config import defaults

TINY = {
    "data.name": "digits",
    "data.clients": 3,
    "data.samples-per-client": 20,
    "model.name": "mlp",
    "rounds.count": 1,
}
ABOUT = {
    "data": "digits-abc",
    "code": "c0de" * 16,
    "hardware": "Abacus, 2 cores, no GPU",
    "versions": {"commit": "1234-dirty", "python": "3.11.7"},
}


def cell(row: str, method: str = "fedavg", **more: Any) -> dict[str, Any]:
    """Return a ``[[cell]]``; ``set`` adds settings."""
    own = {"method": method, **more.pop("set", {})}
    return {"row": row, "set": own, **more}


def table_file(
    folder: Path,
    *cells: Mapping[str, Any],
    name: str = "table",
    shared: Mapping[str, Any] = TINY,
    **changes: Any,
) -> Path:
    """Write a table file; ``changes`` replace its keys, None deletes one."""
    found = {
        "paper": "Somebody 2020, Table 1",
        "shows": "what is shown",
        "measure": "final-accuracy",
        "seeds": [1, 2],
        "all": dict(shared),
        "cell": [dict(cell) for cell in cells],
        **changes,
    }
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps({k: v for k, v in found.items() if v is not None}))
    return path


def table(folder: Path, *cells: Mapping[str, Any], **changes: Any) -> Table:
    """Return a checked table."""
    return read_table(table_file(folder, *cells, **changes))


def run_of(
    cell: Cell, *, seed: int = 1, out: Path = Path("/out"), **changes: str
) -> Run:
    """Return a run of a cell on data that are not there."""
    facts = {"data_path": "", "data_key": "digits-abc", "code": "c0de", **changes}
    return Run(cell=cell, seed=seed, out=out, **facts)


def tiny_config(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return a complete config whose run folder is ``folder``."""
    output = {"output.dir": str(folder.parent), "output.name": folder.name}
    return {**defaults(), **TINY, "method": "fedavg", **changes, **output}


def whole(mean: float, worst: float, bottom20: float, gap: float) -> Result:
    """Return the result of a finished run."""
    names = {"mean": mean, "worst": worst, "bottom20": bottom20, "gap": gap}
    return Result("finished", "", {**names, "weighted_mean": mean}, 90.0, ABOUT)


def broken(cause: str) -> Result:
    """Return the result of a run that failed."""
    return Result("failed", cause, {}, 0.0, {})


MISSING = Result("missing", "", {}, 0.0, {})
