"""Training without communication, client side."""

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
from fedapp.models import load, state_of


@dataclass(frozen=True)
class LocalAlone(LocalAlgorithm):
    """SGD on the client's own model, from the common initial one; nothing is sent."""

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        load(task.model, memory.get("model", task.initial))
        local_sgd(task)
        return Update({}, task.num_examples), {"model": state_of(task.model)}

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        load(task.model, memory.get("model", task.initial))
        yield "personal", task.model
