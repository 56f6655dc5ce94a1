"""FedNH, client side (Dai et al. 2023, arXiv 2212.02758)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedapp.algorithm import (
    LocalAlgorithm,
    LocalTask,
    Memory,
    Predictor,
    Update,
    local_sgd,
)
from fedapp.embeddings import embedded, statistics
from fedapp.models import Classifier, load, state_of
from fedapp.params import Params
from fedapp.prototype_parts import counted, to_parts
from fedapp.prototypes import Bank, unit
from fedapp.proxies import View


class UnitHead(nn.Module):
    """``s z / ||z|| W^T``: rows of W (C, d) are constants, s is trained."""

    protos: Tensor

    def __init__(self, protos: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("protos", protos.clone())
        self.scale = nn.Parameter(scale.clone())

    def forward(self, features: Tensor) -> Tensor:
        return self.scale * (unit(features) @ self.protos.T)


@dataclass(frozen=True)
class LocalFedNH(LocalAlgorithm):
    """SGD on encoder and scale under a fixed head of unit prototypes.

    What goes back of a class is the direction of its mean unit embedding, times its
    samples. The authors' code clips gradients at 10; that is not done here.
    """

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        model = _with_head(task, task.received["encoder"], task.received["scale"])
        local_sgd(replace(task, model=model))
        encoder = state_of(model.encoder)
        scale = {"values": state_of(model.head)["scale"]}
        sent = {"encoder": encoder, "scale": scale, **_class_directions(task)}
        kept = {"encoder": encoder, "scale": scale}
        return Update(sent, task.num_examples), kept

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        """Yield the last own body with today's prototypes, then the global model."""
        got = task.received
        own = memory if "encoder" in memory else got
        yield "personal", _with_head(task, own["encoder"], own["scale"]).eval()
        yield "global", _with_head(task, got["encoder"], got["scale"]).eval()


def _with_head(task: LocalTask, encoder: Params, scale: Params) -> Classifier:
    """Return the task's encoder, with these weights, under the received prototypes."""
    load(task.model.encoder, encoder)
    device = next(task.model.parameters()).device
    protos = task.received["protos"]["values"].to(device)
    return View(task.model.encoder, UnitHead(protos, scale["values"].to(device)))


def _class_directions(task: LocalTask) -> dict[str, dict[str, Tensor]]:
    """Return ``n_kc mu_kc``, classes and counts, by a clean pass with final weights."""
    batches = (
        (unit(features), labels)
        for features, labels in embedded(task.model.encoder, task.labelled)
    )
    width = task.model.head.in_features
    found = statistics(batches, classes=task.classes, width=width)
    directions = unit(found.sums) * found.counts[:, None]
    present = found.counts > 0
    bank = Bank(torch.where(present[:, None], directions, 0.0).float(), present)
    return {**to_parts(bank), **counted(found.counts)}
