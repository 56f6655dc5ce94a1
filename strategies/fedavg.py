"""FedAvg, server side (McMahan et al. 2017, arXiv 1602.05629, Algorithm 1)."""

from collections.abc import Iterable
from dataclasses import dataclass

from fedapp.algorithm import Update
from fedapp.params import Params, WeightedMean
from fedapp.strategy import RoundStrategy
from fedapp.turn import State, Turn


@dataclass(kw_only=True)
class FedAvg(RoundStrategy):
    """The global model is the mean of the returned ones, weighted by examples.

    BatchNorm statistics are averaged like parameters, batch counters are not.
    """

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        mean = WeightedMean()
        for update in updates:
            mean.add(update.sent["model"], update.num_examples)
        return mean.value(), state
