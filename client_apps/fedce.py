"""FedCE, client side (Cai et al. 2023; details after a re-implementation)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from fedapp.algorithm import (
    LocalAlgorithm,
    LocalTask,
    Memory,
    Predictor,
    Update,
    local_sgd,
)
from fedapp.clusters import cluster_models
from fedapp.models import load, state_of
from fedapp.soft_clusters import association, batch_losses


@dataclass(frozen=True)
class LocalFedCE(LocalAlgorithm):
    """Train the cluster model that fits best; say how near the others come.

    Losses are of the training samples, in order and in evaluation mode, where the
    public code has a validation set.
    """

    delta: Annotated[
        float, Field(ge=0, description="how fast association falls with loss distance")
    ]

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        best, gains = self._association(task)
        load(task.model, cluster_models(task.received)[best])
        local_sgd(task)
        sent = {"model": state_of(task.model), "assoc": {"gains": gains.float()}}
        return Update(sent, task.num_examples, {"best": best}), memory

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        """Yield the mixture if the server sent one, else the best cluster's model."""
        if "model" in task.received:
            model = task.received["model"]
        else:
            best, _ = self._association(task)
            model = cluster_models(task.received)[best]
        load(task.model, model)
        yield "personal", task.model

    def _association(self, task: LocalTask) -> tuple[int, torch.Tensor]:
        task.model.eval()
        rows = []
        for model in cluster_models(task.received):
            load(task.model, model)
            found = batch_losses(task.model, task.labelled, task.batch_size)
            rows.append(torch.stack([batch.mean() for batch in found]))
        return association(torch.stack(rows), self.delta)
