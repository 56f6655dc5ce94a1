"""Does each method do what it is for? Eight clients, and what FedAvg cannot learn.

Labels are ``(x + k) mod 4`` of a one-hot input x: every input has every label
somewhere, and clients k and k + 4 agree. A new method adds its line to ``CASES``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from conftest import Finished

from fedapp import server_app
from fedapp.data.images import ImageSet
from fedapp.data.manifest import ClientPlan, Manifest
from fedapp.methods import METHODS
from fedapp.models import ImageShape

CLIENTS, TRAINED, TESTED = 8, 32, 8
EACH = TRAINED + TESTED


def one_hot(client: int, x: int) -> np.ndarray:
    """Return the same inputs for all clients."""
    return (np.arange(4) == x).reshape(2, 2)


def moved_rows(client: int, x: int) -> np.ndarray:
    """Return a line with a gap at x, its rows moved: by four permutations of inputs."""
    image = np.zeros((4, 4), bool)
    image[0] = np.arange(4) != x
    return np.roll(image, client % 4, axis=0)


Groups = Callable[[Finished], dict[int, Any]]


def last_in(table: str) -> Groups:
    """Return how to read each client's last cluster from a table."""
    return lambda done: {int(r["client"]): r["cluster"] for r in done.rows(table)}


def largest_in(table: str, column: str) -> Groups:
    """Return how to read the cluster of each client's largest last value."""

    def read(done: Finished) -> dict[int, Any]:
        last: dict[int, dict[str, float]] = {}
        for row in done.rows(table):
            last.setdefault(int(row["client"]), {})[row["cluster"]] = float(row[column])
        return {client: max(own, key=own.__getitem__) for client, own in last.items()}

    return read


def assigned(done: Finished) -> dict[int, Any]:
    """Return HDC-FL's groups after the last refresh."""
    rows = done.rows("hdc-fl/memberships.csv")
    return {int(r["client"]): r["group"] for r in rows if r["assigned"] == "True"}


@dataclass(frozen=True)
class Case:
    """What a method can learn, of which images, and where it shows who agrees.

    ``why`` says what forbids it the case of the module's docstring.
    """

    own: bool = True
    image: Callable[[int, int], np.ndarray] = one_hot
    groups: Groups | None = None
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
        groups=last_in("pacfl/clusters.csv"),
        why="signatures are of images without labels: here the same for all clients",
    ),
    "emd-cfl": Case(
        image=moved_rows,
        groups=last_in("emd-cfl/clusters.csv"),
        settings={"emd-cfl__holdout": 0.25, "emd-cfl__sample-share": 1.0},
        why="embeddings are of images without labels, compared under one encoder",
    ),
    "fedsoft": Case(
        groups=largest_in("fedsoft/importance.csv", "importance"),
        settings={"rounds__count": 20},
    ),
    "fedce": Case(
        groups=largest_in("fedce/history.csv", "history"),
        settings={"rounds__fraction": 1.0},
        why="every round overwrites every cluster by a mean over those who take part, "
        "so that it forgets who sits out: it can with all taking part",
    ),
    "hdc-fl": Case(groups=assigned),
    "conditional": Case(),
    "oracle": Case(),
    "ifca": Case(groups=last_in("ifca/choices.csv")),
    "ditto": Case(settings={"ditto__lam": 0.1}),
    "dac": Case(),
}

SETTINGS: dict[str, Any] = {
    "data__name": "custom",
    "data__clients": CLIENTS,
    "data__shift": "none",
    "rounds__count": 8,
    "rounds__fraction": 0.5,
    "rounds__evaluate-every": 100,
    "local__epochs": 2,
    "local__batch-size": 8,
    "local__lr": 0.1,
    "checkpoint__every": 100,
}


def eight_clients(
    images: ImageSet, *, seed: int, name: str, **settings: Any
) -> Manifest:
    """Give each client its rows: of every x as many, in training and test part."""
    plans = []
    for client in range(CLIENTS):
        rows = range(client * EACH, (client + 1) * EACH)
        plan = ClientPlan(
            train=tuple(rows[:TRAINED]),
            test=tuple(rows[TRAINED:]),
            group=client % 4,
            factors=(),
            classes=(0, 1, 2, 3),
            histogram=(TRAINED // 4,) * 4,
        )
        plans.append(plan)
    return Manifest(
        name=name,
        key=images.key,
        classes=images.classes,
        image=ImageShape(*images.images.shape[1:]),
        mean=images.mean,
        std=images.std,
        seed=seed,
        settings={name.replace("_", "-"): value for name, value in settings.items()},
        label_maps=(),
        clients=tuple(plans),
        notes=(),
    )


@pytest.fixture
def learn(run, tmp_path, monkeypatch) -> Callable[..., Finished]:
    """Run a method on the data of a case."""
    monkeypatch.setattr(server_app, "make_manifest", eight_clients)

    def start(method: str, case: Case, **changes: Any) -> Finished:
        drawn = [(k, number % 4) for k in range(CLIENTS) for number in range(EACH)]
        images = np.stack([case.image(k, x) for k, x in drawn])
        labels = np.array([(x + k) % 4 for k, x in drawn])
        path = tmp_path / "data.npz"
        np.savez(path, images=np.uint8(255 * images), labels=labels)
        settings = SETTINGS | {"data__path": str(path)} | case.settings | changes
        return run(method, **settings)

    return start


def test_every_method_says_what_it_can_do():
    assert CASES.keys() == METHODS.keys()
    usual = [case for case in CASES.values() if case.own and case.image is one_hot]
    assert all(case.why for case in CASES.values() if case not in usual)


@pytest.mark.parametrize("method", CASES)
def test_a_method_learns_what_it_can(learn, method):
    case = CASES[method]
    done = learn(method, case)
    if not case.own:
        assert done.summary["accuracy"]["mean"] <= 0.45
        return
    found = done.summary["per_client"]
    assert [client["trained"] for client in found] == [True] * CLIENTS
    assert min(client["accuracy"] for client in found) >= 0.9
    if case.groups is not None:
        groups = case.groups(done)
        assert [groups[k] for k in range(4)] == [groups[k + 4] for k in range(4)]
        assert len(set(groups.values())) == 4


def test_pacfl_cannot_tell_these_clients_apart_by_images(learn):
    done = learn("pacfl", Case(), rounds__count=1)
    assert {row["cluster"] for row in done.rows("pacfl/clusters.csv")} == {"0"}
