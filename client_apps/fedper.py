"""FedPer, client side (Arivazhagan et al. 2019, arXiv 1912.00818)."""

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
from fedapp.params import Params, join, select


def own_head(task: LocalTask, memory: Memory) -> Params:
    """Return the client's head; before it ever trained, the common initial one."""
    return memory.get("head") or select(task.initial, "head")


@dataclass(frozen=True)
class LocalFedPer(LocalAlgorithm):
    """SGD on the received encoder and the client's own head, which stays here."""

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        encoder, head = task.received["encoder"], own_head(task, memory)
        load(task.model, join(encoder=encoder, head=head))
        local_sgd(task)
        after = state_of(task.model)
        sent = {"encoder": select(after, "encoder")}
        return Update(sent, task.num_examples), {"head": select(after, "head")}

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        encoder, head = task.received["encoder"], own_head(task, memory)
        load(task.model, join(encoder=encoder, head=head))
        yield "personal", task.model
