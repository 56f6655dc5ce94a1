"""DAC, client side (Listo Zec et al. 2022, arXiv 2206.08839, Algorithm 1)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
    seeded,
)
from fedapp.clusters import mean_loss
from fedapp.data.samples import Samples
from fedapp.models import load, state_of
from fedapp.params import Params, weighted_mean


def split(samples: Samples, share: float, *, seed: int, client: int) -> list[Samples]:
    """Return training and validation samples: the same whenever it is asked for.

    Both have at least one sample; one sample alone, or a share of 0, is both.
    """
    count = len(samples)
    held_out = min(max(1, round(share * count)), count - 1) if share else 0
    if held_out == 0:
        return [samples, samples]
    order = torch.randperm(count, generator=seeded(seed, client, 0))
    parts = order[held_out:].sort().values, order[:held_out].sort().values
    return [
        Samples(samples.images[rows], samples.labels[rows], samples.view)
        for rows in (part.to(samples.labels.device) for part in parts)
    ]


@dataclass(frozen=True)
class LocalDac(LocalAlgorithm):
    """Merge the own model with peers', train, and keep the best by validation loss.

    Losses of peers, the merge and training use the training part; the validation part
    (``validation`` of the samples) only tells which model was best so far.
    """

    validation: Annotated[
        float, Field(ge=0, lt=1, description="share of training samples for validation")
    ]

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        training, validation = split(
            task.labelled, self.validation, seed=task.seed, client=task.client
        )
        task = replace(task, labelled=training)
        models = [task.received.get("model", task.initial)]
        names = str(task.scalars.get("peers", "")).split()
        models += [task.received[f"peer-{i}"] for i in range(1, len(names) + 1)]
        losses = [self._loss(task, model) for model in models[1:]]
        counts = str(task.scalars.get("counts", "1")).split()
        load(task.model, weighted_mean(models, [float(count) for count in counts]))
        local_sgd(task)
        after = state_of(task.model)
        reached = mean_loss(task, validation)
        sent = {"model": after, "losses": {"losses": torch.tensor(losses)}}
        update = Update(sent, task.num_examples, {"validation-loss": reached})
        if "best" in memory and float(memory["note"]["loss"]) <= reached:
            return update, memory
        note = {"loss": torch.tensor(reached, dtype=torch.float64)}
        return update, {"best": after, "note": note}

    def _loss(self, task: LocalTask, model: Params) -> float:
        load(task.model, model)
        return mean_loss(task)

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        """Yield the newest model if the server sent it, else the best one."""
        model = task.received.get("model") or memory.get("best") or task.initial
        load(task.model, model)
        yield "personal", task.model
