"""HDC-FL, client side: FedPer's training, and the server learns of the head.

It gets a copy of it, or else its Gram matrix and, when groups are formed, a sketch.
"""

from dataclasses import dataclass

import torch

from client_apps.fedper import LocalFedPer
from fedapp.algorithm import LocalTask, Memory, Update
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


@dataclass(frozen=True)
class LocalHdcFl(LocalFedPer):
    """Train as FedPer does and report of the head beside the encoder.

    What is evaluated is the received encoder, personal or shared, under the client's
    own head; both are put in a scratch model and forgotten (specification 23.2).
    """

    exchange: Exchange
    sketch_length: SketchLength
    epsilon: Epsilon
    delta: Delta

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        if task.phase == SKETCH:
            return self._sketch(task, memory), memory
        update, memory = super().train(task, memory)
        report = {"head": memory["head"]}
        if self.exchange == "sketch":
            initial = task.initial["head.weight"].numpy()
            head = memory["head"]["weight"].numpy()
            report = {"geometry": dict(geometry_of(head, initial))}
        return Update({**update.sent, **report}, update.num_examples), memory

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
