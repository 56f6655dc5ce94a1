"""Does each method do what it is for? Eight clients, and what FedAvg cannot learn.

Labels are ``(x + k) mod 4`` of a one-hot input x: every input has every label
somewhere, and clients k and k + 4 agree. A new method adds its line to ``CASES``.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Finished
from PIL import Image

from fedapp.methods import METHODS

CLIENTS, EACH = 8, 40


def one_hot(client: int, x: int) -> np.ndarray:
    """The same inputs for all clients."""
    return np.array([x == 0, x == 1, x == 2, x == 3]).reshape(2, 2)


def moved_rows(client: int, x: int) -> np.ndarray:
    """One of four row permutations of an image: a line with a gap at x."""
    image = np.zeros((4, 4), bool)
    image[0] = np.arange(4) != x
    return np.roll(image, client % 4, axis=0)


Pairs = Callable[[Finished], dict[int, Any]]


def last_column(table: str, column: str) -> Pairs:
    """Return how to read a column of a table, by client, in its last rows."""
    return lambda done: {int(r["client"]): r[column] for r in done.rows(table)}


def largest(table: str, column: str) -> Pairs:
    """Return how to read the cluster of the largest value, by client, at the end."""

    def read(done: Finished) -> dict[int, Any]:
        last: dict[int, dict[str, float]] = {}
        for row in done.rows(table):
            last.setdefault(int(row["client"]), {})[row["cluster"]] = float(row[column])
        return {client: max(own, key=own.get) for client, own in last.items()}

    return read


def assigned(done: Finished) -> dict[int, Any]:
    """HDC-FL's groups after the last refresh."""
    rows = [r for r in done.rows("hdc-fl/memberships.csv") if r["assigned"] == "True"]
    return {int(row["client"]): row["group"] for row in rows}


@dataclass(frozen=True)
class Case:
    """What a method can learn: of which data, and whether it shows who agrees.

    ``why`` says what forbids a method the case of the module's docstring.
    """

    own: bool = True
    image: Callable[[int, int], np.ndarray] = one_hot
    pairs: Pairs | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    why: str = ""


CASES = {
    "fedavg": Case(own=False, why="one model for all"),
    "fedavg-se": Case(own=False, why="one model for all with head-mode = global"),
    "fedper": Case(),
    "fedrep": Case(),
    "fedbabu": Case(),
    "fedala": Case(),
    "pfedcs": Case(),
    "ditto": Case(),
    "dac": Case(),
    "ifca": Case(pairs=last_column("ifca/choices.csv", "cluster")),
    "oracle": Case(own=False, why="it is told of shifts, and these data have none"),
    "conditional": Case(),
    "local": Case(),
    "fedproto": Case(),
    "fednh": Case(
        settings={"fednh__scale": 20.0},
        why="logits between -1 and 1 are never sure: its scale starts from 20 here",
    ),
    "fedmps": Case(),
    "fedsap": Case(),
    "pacfl": Case(
        image=moved_rows,
        pairs=last_column("pacfl/clusters.csv", "cluster"),
        why="its signatures are of images, without labels: the same for all clients",
    ),
    "emd-cfl": Case(
        image=moved_rows,
        pairs=last_column("emd-cfl/clusters.csv", "cluster"),
        settings={"emd-cfl__holdout": 0.25, "emd-cfl__sample-share": 1.0},
        why="embeddings are of images, without labels, all under the same encoder",
    ),
    "fedsoft": Case(pairs=largest("fedsoft/importance.csv", "importance")),
    "fedce": Case(
        pairs=largest("fedce/history.csv", "history"),
        settings={"rounds__fraction": 1.0},
        why="every round overwrites every cluster with those who take part, so it "
        "forgets clients that sit out; it can with full participation",
    ),
    "hdc-fl": Case(pairs=assigned),
}
"""What each method of the table can do, one line each."""


@pytest.fixture
def learn(run, tmp_path) -> Callable[..., Finished]:
    """Run a method on the data of a case; clients are numbered as in the formula."""

    def start(method: str, case: Case, **changes: Any) -> tuple[Finished, list[int]]:
        path = tmp_path / "data.parquet"
        write_data(path, case.image)
        settings = {
            "data__name": "custom",
            "data__path": str(path),
            "data__client-column": "client",
            "data__partition": "natural",
            "data__shift": "none",
            "data__clients": CLIENTS,
            "data__samples-per-client": 0,
            "rounds__count": 16,
            "rounds__fraction": 0.5,
            "rounds__evaluate-every": 100,
            "local__epochs": 2,
            "local__batch-size": 8,
            "local__lr": 0.1,
            "checkpoint__every": 100,
        }
        done = run(method, **settings | case.settings | changes)
        plans = json.loads((done.path / "manifest.json").read_text())["clients"]
        return done, [plan["train"][0] // EACH for plan in plans]

    return start


def write_data(path: Path, image: Callable[[int, int], np.ndarray]) -> None:
    table: dict[str, list[Any]] = {"image": [], "label": [], "client": []}
    for client in range(CLIENTS):
        for number in range(EACH):
            x = number % 4
            png = io.BytesIO()
            pixels = np.uint8(255 * image(client, x))
            Image.fromarray(pixels).save(png, "PNG")
            table["image"].append(png.getvalue())
            table["label"].append((x + client) % 4)
            table["client"].append(client)
    pq.write_table(pa.table(table), path)


def test_every_method_says_what_it_can_do():
    assert CASES.keys() == METHODS.keys()
    assert all(case.why for case in CASES.values() if case != Case(pairs=case.pairs))


@pytest.mark.parametrize("method", CASES)
def test_a_method_learns_what_it_can(learn, method):
    case = CASES[method]
    done, number = learn(method, case)
    found = {number[c["client"]]: c for c in done.summary["per_client"]}
    trained = [c["accuracy"] for c in found.values() if c["trained"]]
    assert len(trained) == CLIENTS
    if not case.own:
        assert done.summary["accuracy"]["mean"] <= 0.45
        return
    assert min(trained) >= 0.9
    if case.pairs is not None:
        cluster = {number[client]: own for client, own in case.pairs(done).items()}
        assert [cluster[k] for k in range(4)] == [cluster[k + 4] for k in range(4)]
        assert len(set(cluster.values())) == 4


def test_pacfl_cannot_tell_clients_by_their_labels(learn):
    done, _ = learn("pacfl", Case(), rounds__count=1)
    assert {row["cluster"] for row in done.rows("pacfl/clusters.csv")} == {"0"}
