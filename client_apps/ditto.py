"""Ditto, client side (Li et al. 2021, arXiv 2012.04221, Algorithm 1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from fedapp.algorithm import (
    LocalAlgorithm,
    LocalTask,
    Memory,
    Penalty,
    Predictor,
    Update,
    local_sgd,
)
from fedapp.models import load, state_of
from fedapp.params import Params


def pull(task: LocalTask, anchor: Params, strength: float) -> Penalty | None:
    """Return the penalty ``strength / 2 * ||v - anchor||^2`` on ``task.model``'s v.

    It covers trainable parameters, not buffers; tensors pair by name. ``anchor`` is
    the model as it was received, never one that is being trained.
    """
    if strength == 0:
        return None
    pairs = [
        (leaf, anchor[name].to(leaf.device, copy=True))
        for name, leaf in task.model.named_parameters()
    ]

    def penalty(features: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        del features, logits, labels
        squares = [(leaf - fixed).square().sum() for leaf, fixed in pairs]
        return torch.stack(squares).sum() * (strength / 2)

    return penalty


@dataclass(frozen=True)
class LocalDitto(LocalAlgorithm):
    """FedAvg's training, and a personal model pulled towards the received global one.

    Both see the same batches. The personal model, its BatchNorm statistics included,
    stays here; a client that never trained has none and is scored with the global
    model. Departure from the paper: means on the server are weighted by examples.
    """

    lam: Annotated[
        float, Field(ge=0, description="pull of personal models to the global one")
    ]
    personal_epochs: Annotated[
        int, Field(ge=0, description="passes over the personal model; 0: local.epochs")
    ]

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        received = task.received["model"]
        load(task.model, received)
        local_sgd(task)
        update = Update({"model": state_of(task.model)}, task.num_examples)
        load(task.model, memory.get("model", task.initial))
        epochs = self.personal_epochs or task.epochs
        local_sgd(task, epochs=epochs, penalty=pull(task, received, self.lam))
        return update, {"model": state_of(task.model)}

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        load(task.model, memory.get("model", task.received["model"]))
        yield "personal", task.model
        load(task.model, task.received["model"])
        yield "global", task.model
