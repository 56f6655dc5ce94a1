"""Shared fixtures: the app in this process, and models small enough to work by hand."""

import csv
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.supercore.task_identity import TaskIdentity
from torch import Tensor, nn

from fedapp import config
from fedapp.algorithm import LocalTask
from fedapp.bank import Bank
from fedapp.data.samples import Samples
from fedapp.files import TensorFile
from fedapp.inline import run_inline
from fedapp.models import Classifier, state_of
from fedapp.turn import Turn

TINY = {
    "data.clients": 6,
    "data.samples-per-client": 24,
    "data.test-fraction": 0.25,
    "model.name": "mlp",
    "rounds.count": 2,
    "rounds.evaluate-every": 1,
    "hdc-fl.refresh-every": 1,
    "output.report": False,
}
"""Settings under which the whole app runs in about a second."""


@pytest.fixture(scope="session", autouse=True)
def _decoded_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep decoded data sets out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDAPP_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def inside_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages be made: Flower allows that only inside a run."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@dataclass(frozen=True)
class Finished:
    """A run folder and how to look into it."""

    path: Path

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.path / "summary.json").read_text())

    def rows(self, file: str) -> list[dict[str, str]]:
        with (self.path / file).open(newline="") as stream:
            return list(csv.DictReader(stream))

    def tensors(self, file: str) -> dict[str, dict[str, Tensor]]:
        return TensorFile(self.path / file).payload()

    def bits(self) -> dict[str, bytes]:
        """All files that "the same bits" is about, by relative path."""
        wanted = ("*.safetensors", "metrics.csv", "manifest.json", "*/*.csv")
        return {
            str(file.relative_to(self.path)): file.read_bytes()
            for pattern in wanted
            for file in sorted(self.path.rglob(pattern))
        }


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Finished]:
    """Run the app in this process on tiny settings; keywords as in ``data_clients``."""
    return runner(tmp_path)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Finished]:
    """Run as ``run`` does, but the same run only once for all tests that read it."""
    return functools.cache(runner(tmp_path_factory.mktemp("once")))


def runner(tmp_path: Path) -> Callable[..., Finished]:
    """Return a function that runs the app, with run folders in ``tmp_path``."""

    def start(method: str = "fedavg", name: str = "", **settings: Any) -> Finished:
        changed = {
            key.replace("__", ".").replace("_", "-"): v for key, v in settings.items()
        }
        name = name or f"{method}-{len(list(tmp_path.iterdir()))}"
        output = {"method": method, "output.dir": str(tmp_path), "output.name": name}
        unknown = changed.keys() - config.defaults().keys()
        assert not unknown, unknown
        try:
            run_inline(config.defaults() | TINY | changed | output)
        except Exception as error:
            error.add_note(str(tmp_path / name))
            raise
        return Finished(tmp_path / name)

    return start


def line_model(encoder: float = 1.0, head: float = 1.0) -> Classifier:
    """Return ``y = head * encoder * x``, without biases."""
    model = Classifier(nn.Linear(1, 1, bias=False), 1, 1)
    model.head = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.encoder.weight.fill_(encoder)
        model.head.weight.fill_(head)
    return model


def half_square(output: Tensor, target: Tensor) -> Tensor:
    """Return the mean of (output - target)^2 / 2."""
    return ((output[:, 0] - target) ** 2).mean() / 2


def line_task(points: list[tuple[float, float]], **changes: Any) -> LocalTask:
    """Return a task of fitting ``y = head * encoder * x``: full batches, rate 0.1."""
    x = torch.tensor([[x] for x, _ in points])
    y = torch.tensor([y for _, y in points])
    model = changes.pop("model", line_model())
    values: dict[str, Any] = {
        "model": model,
        "initial": state_of(model),
        "received": {},
        "labelled": Samples(x, y),
        "classes": 1,
        "seed": 0,
        "client": 0,
        "lr": 0.1,
        "epochs": 1,
        "batch_size": len(points),
        "loss": half_square,
    }
    return LocalTask(**values | changes)


class Normed(nn.Module):
    """A linear encoder with BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(images))


def normed_task(count: int, **changes: Any) -> LocalTask:
    """Return a task of telling two classes apart; the encoder has BatchNorm."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Classifier(Normed(), 3, 2)
    samples = Samples(
        torch.randn(count, 4, generator=generator), torch.arange(count) % 2
    )
    task = LocalTask(
        model=model,
        initial=state_of(model),
        received={},
        labelled=samples,
        classes=2,
        seed=0,
        client=0,
        lr=0.1,
        epochs=2,
        batch_size=4,
        momentum=0.9,
        weight_decay=0.01,
    )
    return replace(task, **changes)


@pytest.fixture
def make_turn(tmp_path: Path) -> Callable[..., Turn]:
    """Return turns that share one bank; keywords replace fields."""
    bank = Bank(tmp_path / "bank")

    def make(**changes: Any) -> Turn:
        values: dict[str, Any] = {
            "round": 1,
            "rounds": 10,
            "phase": "train",
            "step": 0,
            "num_clients": 4,
            "sampled": (0, 1, 2, 3),
            "seed": 0,
            "bank": bank,
        }
        return Turn(**values | changes)

    return make
