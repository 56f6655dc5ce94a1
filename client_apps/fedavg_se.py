"""FedAvg with a shared encoder, client side: FedAvg's or FedPer's."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from client_apps.fedper import LocalFedPer
from client_apps.sgd import LocalSGD
from fedapp.algorithm import LocalAlgorithm, LocalTask, Memory, Predictor, Update


@dataclass(frozen=True)
class LocalFedAvgSE(LocalAlgorithm):
    """Plain SGD for ``head_mode`` global, FedPer's training for local."""

    head_mode: Literal["global", "local"]

    @property
    def _rule(self) -> LocalAlgorithm:
        return LocalSGD() if self.head_mode == "global" else LocalFedPer()

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        return self._rule.train(task, memory)

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterable[tuple[str, Predictor]]:
        return self._rule.predictors(task, memory)
