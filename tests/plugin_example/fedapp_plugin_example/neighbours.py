"""A method that shows how to use the bank: clients start from a neighbour's model."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from client_apps.sgd import LocalSGD
from fedapp.algorithm import Update
from fedapp.methods import Method
from fedapp.params import Params, WeightedMean
from fedapp.turn import State, Task, Turn
from strategies.fedavg import FedAvg


@dataclass(kw_only=True)
class Neighbours(FedAvg):
    """Read the models of peers, as of last round, from the bank.

    Client k starts from the mean of the global model and the last model of client
    k - 1: a row of the wrong round shows at once.
    """

    def tasks(self, params: Params, state: State, turn: Turn) -> Iterator[Task]:
        for client in turn.sampled:
            peer = turn.bank.read((client - 1) % turn.num_clients)
            mean = WeightedMean()
            mean.add(params, 1)
            if peer is not None:
                assert peer.round < turn.round
                mean.add(peer.part("model"), 1)
            yield Task(client, {"model": mean.value()})

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        def kept() -> Iterator[Update]:
            for update in updates:
                turn.bank.write(
                    update.client,
                    update.sent,
                    num_examples=update.num_examples,
                    round=turn.round,
                )
                yield update

        return super().update(params, state, kept(), turn)


METHOD = Method(Neighbours, LocalSGD, "FedAvg that starts from a neighbour's model")
