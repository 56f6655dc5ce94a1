"""Training without communication, server side: the clients' own models are all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from fedapp.algorithm import Update
from fedapp.params import Params, Payload
from fedapp.strategy import RoundStrategy
from fedapp.turn import State, Turn


@dataclass(kw_only=True)
class LocalOnly(RoundStrategy):
    """Tell clients when to train, as other methods would, and send nothing."""

    all_rounds: Annotated[bool, Field(description="every client trains in every round")]

    def init(self, initial: Params) -> tuple[Params, State]:
        return {}, {}

    def participants(self, state: State, turn: Turn) -> Sequence[int]:
        if self.all_rounds:
            return range(self.num_clients - self.unseen_clients)
        return turn.sampled

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        return {}

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        return params, state
