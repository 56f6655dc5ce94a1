"""FedPer, client side (Arivazhagan et al. 2019, arXiv 1912.00818)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fedapp.algorithm import (
    LocalAlgorithm,
    LocalTask,
    Memory,
    Part,
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

    def passes(self, task: LocalTask) -> Sequence[tuple[Part, int]]:
        """Return what is trained for how many epochs, one after the other."""
        return (("all", task.epochs),)

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        encoder, head = task.received["encoder"], own_head(task, memory)
        load(task.model, join(encoder=encoder, head=head))
        for part, epochs in self.passes(task):
            local_sgd(task, part=part, epochs=epochs)
        after = state_of(task.model)
        sent = {"encoder": select(after, "encoder")}
        return Update(sent, task.num_examples), {"head": select(after, "head")}

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        encoder, head = task.received["encoder"], own_head(task, memory)
        load(task.model, join(encoder=encoder, head=head))
        yield "personal", task.model
