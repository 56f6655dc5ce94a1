"""A complete method from outside: move only part of the way to FedAvg's mean."""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from client_apps.sgd import LocalSGD
from fedapp.algorithm import Update
from fedapp.methods import Method
from fedapp.params import Params, add_scaled, subtract
from fedapp.turn import State, Turn
from strategies.fedavg import FedAvg


class ServerStepSettings(BaseModel):
    """What plugin.settings may hold."""

    model_config = ConfigDict(extra="forbid")

    server_lr: float = Field(default=1.0, gt=0)


@dataclass(kw_only=True)
class ServerStep(FedAvg):
    """The new model is ``x + server_lr * (mean - x)``."""

    server_lr: float

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        mean, state = super().update(params, state, updates, turn)
        return add_scaled(params, self.server_lr, subtract(mean, params)), state


METHOD = Method(
    server=ServerStep,
    client=LocalSGD,
    summary="FedAvg with a server learning rate",
    plugin=ServerStepSettings,
)
