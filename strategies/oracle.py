"""The oracle, server side: an independent FedAvg for each true cluster.

A baseline that no real federation has: it is told the latent group of every client,
which only a simulation knows. With crossed shifts the group is the cell.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fedapp.algorithm import Update
from fedapp.clusters import part_of
from fedapp.params import Params, WeightedMean
from fedapp.strategy import RoundStrategy
from fedapp.turn import Expected, State, Task, Turn, specs_of


@dataclass(kw_only=True)
class Oracle(RoundStrategy):
    """A cluster's model is the mean of its participants', weighted by examples.

    All clusters start from the common initial model; one without participants keeps
    its model.
    """

    def init(self, initial: Params) -> tuple[Params, State]:
        if not self.groups:
            raise ValueError(
                "method 'oracle' needs every client's latent group, which only a "
                "simulation knows: on devices use ifca, which looks for clusters"
            )
        return {}, {part_of(group): initial for group in sorted(set(self.groups))}

    def tasks(self, params: Params, state: State, turn: Turn) -> Iterator[Task]:
        return self._mail(state, sorted(self.participants(state, turn)))

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        return {"model": specs_of(next(iter(state.values())))}

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        means: dict[str, WeightedMean] = {}
        for update in updates:
            part = part_of(self.groups[update.client])
            mean = means.setdefault(part, WeightedMean())
            mean.add(update.sent["model"], update.num_examples)
        return params, {**state, **{part: mean.value() for part, mean in means.items()}}

    def personal(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        return self._mail(state, clients)

    def _mail(self, state: State, clients: Iterable[int]) -> Iterator[Task]:
        for client in clients:
            yield Task(client, {"model": state[part_of(self.groups[client])]})
