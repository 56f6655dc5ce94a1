"""HDC-FL, client side: FedPer's training, and the server learns of the head.

It gets a copy of it, or else its Gram matrix and, when groups are formed, a sketch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from client_apps.fedper import LocalFedPer
from fedapp.algorithm import LocalTask, Memory, Predictor, Update, local_sgd
from fedapp.hdc import newcomers
from fedapp.hdc.geometry import geometry_of
from fedapp.hdc.heads import Array
from fedapp.hdc.sketch import (
    SKETCH,
    Delta,
    Epsilon,
    Exchange,
    SketchLength,
    blurred,
    normal_numbers,
    sketch,
)
from fedapp.models import load, state_of
from fedapp.params import join, select


@dataclass(frozen=True)
class LocalHdcFl(LocalFedPer):
    """Train as FedPer does and report of the head beside the encoder.

    What is evaluated is the received encoder, personal or shared, under the client's
    own head; both are put in a scratch model and forgotten (specification 23.2). A
    client that never trained may fit a head in the phase for newcomers. It is kept
    apart from the head that training starts from, which stays the common initial one.
    """

    exchange: Exchange
    sketch_length: SketchLength
    epsilon: Epsilon
    delta: Delta

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        if task.phase == SKETCH:
            return self._sketch(task, memory), memory
        if task.phase == newcomers.PHASE:
            return _fit_head(task)
        update, memory = super().train(task, memory)
        report = {"head": memory["head"]}
        if self.exchange == "sketch":
            initial = task.initial["head.weight"].numpy()
            head = memory["head"]["weight"].numpy()
            report = {"geometry": dict(geometry_of(head, initial))}
        return Update({**update.sent, **report}, update.num_examples), memory

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        """Yield ``personal``; of a newcomer that compared also ``shared``, ``alone``.

        That is the shared encoder under the same fitted head, and a model that the
        client trained from the common start on its own.
        """
        if "fitted-head" not in memory:
            yield from super().predictors(task, memory)
            return
        head = memory["fitted-head"]
        load(task.model, join(encoder=task.received["encoder"], head=head))
        yield "personal", task.model
        if "alone" in memory:
            load(task.model, join(encoder=memory["shared-encoder"], head=head))
            yield "shared", task.model
            load(task.model, memory["alone"])
            yield "alone", task.model

    def _sketch(self, task: LocalTask, memory: Memory) -> Update:
        if "head" not in memory:
            raise ValueError("there is no trained head here to make a sketch of")
        directions: Array = task.received["directions"]["weight"].double().numpy()
        numbers = sketch(
            memory["head"]["weight"].numpy(),
            directions,
            length=self.sketch_length,
            seed=task.seed,
        )
        noise = normal_numbers(
            self.sketch_length,
            seed=task.seed,
            client=task.client,
            round=task.round,
            simulated=task.simulated,
        )
        numbers = blurred(numbers, noise, epsilon=self.epsilon, delta=self.delta)
        sent = {"sketch": {"numbers": torch.from_numpy(numbers).float()}}
        return Update(sent, task.num_examples)


def _fit_head(task: LocalTask) -> tuple[Update, Memory]:
    """Fit a head on the received encoder, from the common start, and send it."""
    encoder = task.received["encoder"]
    load(task.model, join(encoder=encoder, head=select(task.initial, "head")))
    local_sgd(task, part="head", epochs=int(task.scalars["epochs"]))
    head = select(state_of(task.model), "head")
    memory: dict[str, dict[str, Tensor]] = {"fitted-head": head}
    alone = int(task.scalars["alone-epochs"])
    if alone:
        load(task.model, task.initial)
        local_sgd(task, epochs=alone)
        memory |= {"shared-encoder": dict(encoder), "alone": state_of(task.model)}
    return Update({"head": head}, task.num_examples), memory
