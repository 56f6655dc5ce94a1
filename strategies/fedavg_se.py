"""FedAvg with a shared encoder, server side.

The name stands in HDC-FL's list of baselines without a source. Two readings exist and
both are offered: encoder and head shared (FedAvg), or a shared encoder with private
heads and nothing more (FedPer).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from fedapp.algorithm import Update
from fedapp.params import Params, Payload
from fedapp.strategy import RoundStrategy
from fedapp.turn import State, Turn
from strategies.fedavg import FedAvg
from strategies.fedper import FedPer


@dataclass(kw_only=True)
class FedAvgSE(RoundStrategy):
    """FedAvg or FedPer, as ``head_mode`` says."""

    head_mode: Annotated[
        Literal["global", "local"],
        Field(description="global: heads are averaged too (FedAvg); local: FedPer"),
    ]

    @property
    def _rule(self) -> type[FedAvg | FedPer]:
        return FedAvg if self.head_mode == "global" else FedPer

    def init(self, initial: Params) -> tuple[Params, State]:
        return self._rule.init(self, initial)  # type: ignore[arg-type]

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        return self._rule.broadcast(self, params, state, turn)  # type: ignore[arg-type]

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        return self._rule.update(self, params, state, updates, turn)  # type: ignore[arg-type]
