"""IFCA, client side (Ghosh et al. 2020, arXiv 2006.04088, Algorithm 1)."""

from collections.abc import Iterator
from dataclasses import dataclass

from fedapp.algorithm import (
    LocalAlgorithm,
    LocalTask,
    Memory,
    Predictor,
    Update,
    local_sgd,
)
from fedapp.clusters import cluster_models, lowest, mean_loss
from fedapp.models import load, state_of
from fedapp.params import Params, select


def choose(task: LocalTask, models: list[Params]) -> int:
    """Return the model with the lowest loss on the training samples, first of equals.

    The paper's code looks at test losses, which here never choose anything.
    """
    losses = []
    for model in models:
        load(task.model, model)
        losses.append(mean_loss(task))
    return lowest(losses)


@dataclass(frozen=True)
class LocalIfca(LocalAlgorithm):
    """SGD on the model that fits best; it goes back with its cluster's number."""

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        models = cluster_models(task.received)
        cluster = choose(task, models)
        metrics = {"cluster": cluster}
        if task.phase != "train":
            return Update({}, task.num_examples, metrics), memory
        load(task.model, models[cluster])
        local_sgd(task)
        after = state_of(task.model)
        sent: dict[str, Params] = {"model": after}
        if "encoder" in task.received:
            sent = {"encoder": select(after, "encoder"), "head": select(after, "head")}
        return Update(sent, task.num_examples, metrics), memory

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        models = cluster_models(task.received)
        load(task.model, models[choose(task, models)])
        yield "cluster", task.model
