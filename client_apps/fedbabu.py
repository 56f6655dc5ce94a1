"""FedBABU, client side (Oh, Kim, Yun 2022, arXiv 2106.06042, Algorithm 1)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

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
from fedapp.params import join, select
from fedapp.tuning import UNTUNED, tune


def load_shared(task: LocalTask) -> None:
    """Load the received encoder under the head that all clients build from the seed."""
    head = select(task.initial, "head")
    load(task.model, join(encoder=task.received["encoder"], head=head))


@dataclass(frozen=True)
class LocalFedBABU(LocalAlgorithm):
    """SGD on the encoder alone; the head is the common initial one, for good.

    What is scored is a copy, tuned on the client's training samples and forgotten. If
    that diverges, the copy as it was is scored as ``untuned``. Departure: the authors
    let the rate fall over the rounds and tune at the last one; here it does not fall,
    so tuning has a rate of its own.
    """

    tune_epochs: Annotated[
        int, Field(ge=0, description="epochs of tuning before each evaluation")
    ]
    tune_part: Annotated[Part, Field(description="what is tuned before it")]
    tune_rate: Annotated[
        float, Field(gt=0, description="its learning rate, as a multiple of local.lr")
    ]

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        load_shared(task)
        local_sgd(task, part="encoder")
        sent = {"encoder": select(state_of(task.model), "encoder")}
        return Update(sent, task.num_examples), memory

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        load_shared(task)
        slow = replace(task, lr=self.tune_rate * task.lr)
        well = tune(slow, part=self.tune_part, epochs=self.tune_epochs)
        yield "personal" if well else UNTUNED, task.model
