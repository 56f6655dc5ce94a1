"""Every method, in a federation of odd clients, at both participations and models.

A method of the table needs nothing here, but for settings that keep it short.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Finished
from torch.nn import functional

from fedapp import client_app, server_app
from fedapp.algorithm import LocalAlgorithm, LocalTask, Memory
from fedapp.bank import Bank
from fedapp.checkpoint import Checkpoints, Commit
from fedapp.config import build
from fedapp.data.images import ImageSet
from fedapp.data.manifest import ClientPlan, Manifest
from fedapp.data.samples import Samples
from fedapp.files import sha256
from fedapp.memory import FolderMemory, Who
from fedapp.methods import METHODS, check_settings
from fedapp.models import ImageShape
from fedapp.params import num_bytes, select
from fedapp.run_folder import read_config
from fedapp.turn import Turn, sample_clients
from fedapp.workplace import build_task, cache_folder

OWN: dict[str, dict[str, Any]] = {
    "fedrep": {"fedrep.head-epochs": 1, "fedrep.refit-head": True},
    "fedbabu": {"fedbabu.tune-epochs": 1},
    "pfedcs": {"pfedcs.first-stage": 1},
    "pacfl": {"pacfl.n-clusters": 2},
    "fedsoft": {"fedsoft.selection": False},  # else it draws who trains
    "hdc-fl": {"hdc-fl.refresh-every": 1, "hdc-fl.activation": "always"},
}
"""Settings that show most of a method in two rounds."""

RECOMPUTED = ("conditional",)
"""Methods whose clients only keep what they could compute again, before they train."""

MODELS_KEPT = {
    "ifca": 4,
    "oracle": 2,
    "pacfl": 2,
    "emd-cfl": 1 + 9,  # the mean of round 1; one for each that trained, if all differ
    "fedsoft": 4,
    "fedce": 4,
}
"""How many models a method keeps in params and state, where that is more than one."""

PER_CLIENT = 256
"""Bytes that it may keep of each client besides: less than a head."""

CASES = {
    "cnn": {"model.name": "cnn", "model.width": 0.1},
    "resnet": {"model.name": "resnet18", "model.width": 1 / 16},
}

TRAINING = [
    [0, 1, 2, 0, 1, 2],
    [0],  # one sample
    [1, 1, 1],  # one class
    [0, 2, 0, 2],  # a class is absent
    [0, 1, 2, 0, 1],  # fails in round 2
    [2, 1, 0, 2, 1, 0],
    [1, 2],
    [0, 1],
    [2, 0, 1],
    [0, 1, 2],  # never trains
]
"""Classes of each client's training samples; nobody has class 3."""

TESTED = 2
CLIENTS, CLASSES, BATCH, GROUPS = len(TRAINING), 4, 2, 2
FAILING, UNSEEN = 4, 9
SEED = 620
"""With which 30 % are (1, 2, 5) and then (0, 4, 8): the odd ones, and nobody twice."""

WHITE = 255


def images_file(folder: Path) -> Path:
    """Write the images of all clients; the corner is white in a test image only."""
    generator = np.random.default_rng(0)
    labels = [c for own in TRAINING for c in [*own, *_tested(own)]] + [3]
    images = generator.integers(0, 120, (len(labels), 8, 8), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[2 * label : 2 * label + 2] += 100
    images[:, 0, 0] = 0
    images[[row for plan in _rows() for row in plan[1]], 0, 0] = WHITE
    np.savez(folder / "odd.npz", images=images, labels=np.array(labels))
    return folder / "odd.npz"


def _tested(own: list[int]) -> list[int]:
    return list(itertools.islice(itertools.cycle(own), TESTED))


def _rows() -> list[tuple[range, range]]:
    """Return which rows of the file each client trains and is tested on."""
    found, start = [], 0
    for own in TRAINING:
        middle, end = start + len(own), start + len(own) + TESTED
        found.append((range(start, middle), range(middle, end)))
        start = end
    return found


def odd_manifest(
    images: ImageSet, *, seed: int, name: str, **settings: Any
) -> Manifest:
    """Divide the images as ``TRAINING`` says, whatever the settings say."""
    settings = {name.replace("_", "-"): value for name, value in settings.items()}
    plans = [
        ClientPlan(
            train=tuple(train),
            test=tuple(test),
            group=client % GROUPS,
            factors=(),
            classes=tuple(sorted(set(TRAINING[client]))),
            histogram=tuple(TRAINING[client].count(c) for c in range(CLASSES)),
        )
        for client, (train, test) in enumerate(_rows())
    ]
    return Manifest(
        name=name,
        key=images.key,
        classes=images.classes,
        image=ImageShape(*images.images.shape[1:]),
        mean=images.mean,
        std=images.std,
        seed=seed,
        settings=settings,
        label_maps=(),
        clients=tuple(plans),
        notes=(),
    )


def guarded(settings: Any, who: Who, node: Any, received: Any, cfg: Any, scalars: Any):
    """Return the task of a message as always; one client fails in round 2.

    Outside evaluations the test samples are poison. Training samples never show the
    mark of a test sample.
    """
    task, test = build_task(settings, who, node, received, cfg, scalars)
    black = task.labelled.images[:, 0, 0, 0].max()
    assert black < test.images[:, 0, 0, 0].min()
    if cfg["phase"] == "evaluate":
        return task, test
    if (int(cfg["client"]), int(cfg["round"])) == (FAILING, 2):
        raise RuntimeError("the battery is empty")
    return task, Samples(torch.full_like(test.images, torch.nan), test.labels)


@dataclass(frozen=True)
class Outcome:
    """A finished run of the matrix."""

    done: Finished
    method: str
    fraction: float

    @property
    def trained(self) -> dict[int, int]:
        """The last round in which each client that ever trained did."""
        found = {}
        for round_ in (1, 2):
            for client in self.sampled(round_):
                if (client, round_) != (FAILING, 2):
                    found[client] = round_
        return found

    def sampled(self, round_: int) -> tuple[int, ...]:
        return sample_clients(
            seed=SEED, round=round_, candidates=UNSEEN, fraction=self.fraction
        )

    @property
    def commit(self) -> Commit:
        found = Checkpoints(self.done.path / "checkpoint").latest()
        assert found is not None
        return found

    def algorithm(self) -> LocalAlgorithm:
        table = check_settings(read_config(self.done.path)).table
        return build(METHODS[self.method].client, table)

    def memory(self, client: int) -> Memory:
        return FolderMemory(self.done.path / "memory", client).load((9, 0))

    def tasks(self) -> list[tuple[LocalTask, Samples]]:
        """Return what each client is asked to evaluate, from what is on disk."""
        settings = check_settings(read_config(self.done.path))
        rule = build(METHODS[self.method].server, settings.table)
        rule.num_clients, rule.unseen_clients, rule.seed = CLIENTS, 1, SEED
        rule.groups = [client % GROUPS for client in range(CLIENTS)]
        commit, bank = self.commit, Bank(self.done.path / "bank")
        bank.restore(commit.bank, committed=commit.round)
        turn = Turn(
            round=2,
            rounds=2,
            phase="evaluate",
            step=0,
            num_clients=CLIENTS,
            sampled=self.sampled(2),
            seed=SEED,
            bank=bank,
            last_trained=self.trained,
        )
        cfg = {
            "run-dir": str(self.done.path),
            "cache-dir": str(cache_folder()),
            "manifest": sha256((self.done.path / "manifest.json").read_text()),
            "phase": "evaluate",
            "round": 2,
        }
        asked = rule.personal(commit.params, commit.state, range(CLIENTS), turn)
        return [
            build_task(
                settings,
                Who(str(client), simulated=True),
                {},
                payload,
                {**cfg, "client": client},
                scalars,
            )
            for client, payload, scalars in asked
        ]

    def scored(self) -> dict[int, dict[str, str]]:
        """Return the row of metrics.csv of each client's main model."""
        found: dict[int, dict[str, str]] = {}
        for row in self.done.rows("metrics.csv"):
            found.setdefault(int(row["client"]), row)
        return found


def logits_of(outcome: Outcome, task: LocalTask, memory: Memory, test: Samples):
    """Return the logits of the main model, one test sample at a time."""
    task.model.eval()
    with torch.no_grad():
        _, predictor = next(iter(outcome.algorithm().predictors(task, memory)))
        return torch.cat([predictor(x) for x, _ in test.in_order(1)]).clone()


@pytest.fixture(scope="module")
def odd_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images_file(tmp_path_factory.mktemp("odd"))


@pytest.fixture
def outcome(request, run, odd_images, monkeypatch) -> Outcome:
    method, fraction, model = request.param
    monkeypatch.setattr(server_app, "make_manifest", odd_manifest)
    monkeypatch.setattr(client_app, "build_task", guarded)
    settings = {
        "seed": SEED,
        "data.name": "custom",
        "data.path": str(odd_images),
        "data.clients": CLIENTS,
        "data.unseen-clients": 1,
        "data.shift": "none",
        "rounds.count": 2,
        "rounds.fraction": fraction,
        "rounds.min-replies": 0.5,
        "rounds.evaluate-every": 2,
        "local.batch-size": BATCH,
        "local.lr": 0.02,
        **CASES[model],
        **OWN.get(method, {}),
    }
    done = run(method, **{name.replace(".", "__"): v for name, v in settings.items()})
    return Outcome(done, method, fraction)


def counters_of(outcome: Outcome) -> list[torch.Tensor]:
    """Return all integer tensors that BatchNorm counts in, wherever they are kept."""
    files = outcome.done.path.rglob("*.safetensors")
    return [
        leaf
        for file in files
        for tree in outcome.done.tensors(str(file)).values()
        for name, leaf in tree.items()
        if name.endswith("num_batches_tracked")
    ]


def largest_count(outcome: Outcome) -> int:
    """Return the counter of a model that all participants train for an epoch a round.

    A last batch of one sample is left out; alone, it does not count.
    """
    return sum(
        max(
            len(TRAINING[client]) // BATCH
            for client in outcome.sampled(round_)
            if (client, round_) != (FAILING, 2)
        )
        for round_ in (1, 2)
    )


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(case, id="-".join(map(str, case)))
        for case in itertools.product(METHODS, (1.0, 0.3), CASES)
    ],
    indirect=True,
)
def test_a_method_among_odd_clients(outcome: Outcome):
    scored, commit = outcome.scored(), outcome.commit

    # The run went through, and only what was meant to fail did.
    assert outcome.done.summary["status"] == "completed"
    failures = outcome.done.summary["failures"]
    assert {(f["round"], f["client"]) for f in failures} == {(2, FAILING)}
    assert all("the battery is empty" in f["cause"] for f in failures)

    # Who trained is known, who never did is marked, and all have a score.
    assert set(scored) == set(range(CLIENTS))
    for client, row in scored.items():
        last = outcome.trained.get(client, 0)
        assert row["last_trained_round"] == str(last)
        assert row["trained"] == str(last > 0).lower()

    # Scores are those of what is kept of each client, one test sample at a time.
    files = {f: f.read_bytes() for f in outcome.done.path.rglob("*") if f.is_file()}
    tasks = outcome.tasks()
    for client, (task, test) in enumerate(tasks):
        memory = outcome.memory(client)
        private = bool(memory) and outcome.method not in RECOMPUTED
        assert private <= (client in outcome.trained)
        first = logits_of(outcome, task, memory, test)
        one = Samples(test.images[:1], test.labels[:1])
        assert torch.equal(first[:1], logits_of(outcome, task, memory, one))
        loss = functional.cross_entropy(first, test.labels).item()
        assert float(scored[client]["loss"]) == pytest.approx(loss, rel=1e-4)
        right = (first.argmax(1) == test.labels).double().mean().item()
        assert float(scored[client]["accuracy"]) == pytest.approx(right)
        if private:
            common = logits_of(outcome, task, {}, one)
            assert not torch.equal(first[:1], common), f"client {client}: not its own"
    after = {f: f.read_bytes() for f in outcome.done.path.rglob("*") if f.is_file()}
    assert after == files

    # Counters are whole numbers, and that of the shared model is the largest one.
    assert {leaf.dtype for leaf in counters_of(outcome)} <= {torch.int64}
    shared = {
        leaf.item()
        for name, leaf in commit.params.items()
        if name.endswith("bn1.num_batches_tracked")
    }
    assert shared <= {largest_count(outcome)}

    # The server keeps its model and perhaps a head, but neither for each client.
    initial = tasks[0][0].initial
    models = MODELS_KEPT.get(outcome.method, 1) * num_bytes({"model": initial})
    head = num_bytes({"head": select(initial, "head")})
    kept = num_bytes({"params": commit.params}) + num_bytes(commit.state)
    assert kept <= models + head + PER_CLIENT * CLIENTS
    assert head > PER_CLIENT
