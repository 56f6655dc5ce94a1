"""FedSoft, client side (Ruan and Joe-Wong 2022, arXiv 2112.06053)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from fedapp.algorithm import (
    LocalAlgorithm,
    LocalTask,
    Memory,
    Penalty,
    Predictor,
    Update,
    local_sgd,
)
from fedapp.clusters import cluster_models
from fedapp.models import load, state_of
from fedapp.params import Params
from fedapp.soft_clusters import batch_losses, importance

BATCH = 512


def pull(
    parameters: Mapping[str, nn.Parameter], anchor: Params, strength: float
) -> Tensor:
    """Return ``strength / 2 * ||w - anchor||^2`` over parameters; buffers are free.

    With strength ``lam U`` it has the gradient of ``lam / 2 sum_s u_s ||w - c_s||^2``,
    where ``U = sum_s u_s`` and the anchor is ``sum_s u_s c_s / U``.
    """
    squares = [
        (leaf - anchor[name]).square().sum() for name, leaf in parameters.items()
    ]
    return strength / 2 * torch.stack(squares).sum()


@dataclass(frozen=True)
class LocalFedSoft(LocalAlgorithm):
    """A personal model, which stays here, trained with a pull to all cluster models."""

    lam: Annotated[float, Field(ge=0, description="strength of the pull to clusters")]
    sigma: Annotated[
        float, Field(ge=0, le=1, description="least importance of a cluster")
    ]

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        if task.phase == "estimate":
            return self._estimate(task), memory
        load(task.model, memory.get("model", task.initial))
        local_sgd(task, penalty=self._penalty(task))
        after = state_of(task.model)
        return Update({"model": after}, task.num_examples), {"model": after}

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        """Yield what the server sent, a mixture; otherwise the own model."""
        own = memory.get("model", task.initial)
        load(task.model, task.received.get("anchor", own))
        yield "personal", task.model

    def _penalty(self, task: LocalTask) -> Penalty | None:
        if self.lam == 0:
            return None
        parameters = dict(task.model.named_parameters())
        anchor = {
            name: task.received["anchor"][name].to(leaf.device)
            for name, leaf in parameters.items()
        }
        strength = self.lam * float(task.scalars["total"])
        return lambda *_: pull(parameters, anchor, strength)

    def _estimate(self, task: LocalTask) -> Update:
        task.model.eval()
        columns = []
        for model in cluster_models(task.received):
            load(task.model, model)
            columns.append(torch.cat(batch_losses(task.model, task.labelled, BATCH)))
        u = importance(torch.stack(columns, dim=1), self.sigma)
        return Update({"u": {"share": u.float()}}, task.num_examples)
