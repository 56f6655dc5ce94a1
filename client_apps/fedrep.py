"""FedRep, client side (Collins et al. 2021, arXiv 2102.07078, Algorithm 1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from client_apps.fedper import LocalFedPer
from fedapp.algorithm import LocalTask, Memory, Part, Predictor
from fedapp.tuning import UNTUNED, tune


@dataclass(frozen=True)
class LocalFedRep(LocalFedPer):
    """First the own head on the received encoder, then the encoder under that head.

    What is frozen has no optimizer and BatchNorm in evaluation mode; each part has an
    optimizer of its own. Departures: weight decay, if any, is on biases too; and each
    part sees the same order of batches.
    """

    head_epochs: Annotated[
        int,
        Field(
            ge=0, description="epochs of the head, before local.epochs of the encoder"
        ),
    ]
    refit_head: Annotated[
        bool, Field(description="train the head so long before each evaluation too")
    ]

    def passes(self, task: LocalTask) -> Sequence[tuple[Part, int]]:
        return ("head", self.head_epochs), ("encoder", task.epochs)

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        ((name, model),) = super().predictors(task, memory)
        if self.refit_head and not tune(task, part="head", epochs=self.head_epochs):
            name = UNTUNED
        yield name, model
