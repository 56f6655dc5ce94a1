"""Plain local training, the client side of FedAvg (McMahan et al. 2017)."""

from dataclasses import dataclass

from fedapp.algorithm import LocalAlgorithm, LocalTask, Memory, Update, local_sgd
from fedapp.models import load, state_of


@dataclass(frozen=True)
class LocalSGD(LocalAlgorithm):
    """SGD on cross-entropy from the received model; the whole model goes back."""

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        load(task.model, task.received["model"])
        local_sgd(task)
        return Update({"model": state_of(task.model)}, task.num_examples), memory
