"""FedPer, server side (Arivazhagan et al. 2019, arXiv 1912.00818, section 4)."""

from collections.abc import Iterable
from dataclasses import dataclass

from fedapp.algorithm import Update
from fedapp.params import Params, Payload, WeightedMean, select
from fedapp.strategy import RoundStrategy
from fedapp.turn import State, Turn


@dataclass(kw_only=True)
class FedPer(RoundStrategy):
    """The shared encoder is the mean of the returned ones, weighted by examples.

    Heads stay with their clients and are in no message. Departure from the paper: only
    the linear head is private, not the last block of a residual network as well.
    """

    def init(self, initial: Params) -> tuple[Params, State]:
        return select(initial, "encoder"), {}

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        return {"encoder": params}

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        mean = WeightedMean()
        for update in updates:
            mean.add(update.sent["encoder"], update.num_examples)
        return mean.value(), state
