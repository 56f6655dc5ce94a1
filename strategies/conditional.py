"""Client-Conditional FL, server side (Brännvall 2026, arXiv 2603.11307).

FedAvg of a network that sees, beside each image, a statistic of its client's training
samples. The server never sees one, but for ``moments``, where it adds up once what
clients tell of theirs, and for two controls.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedapp.algorithm import Update
from fedapp.exchange import TooFewReplies
from fedapp.params import Params
from fedapp.statistics.moments import agree
from fedapp.statistics.recipe import Agreement, Length, StatMode
from fedapp.turn import Expected, Spec, State, Task, Turn
from strategies.fedavg import FedAvg

AGREE = "agree"


@dataclass(kw_only=True)
class Conditional(FedAvg):
    """FedAvg; for ``moments``, or if asked to, ``2 * length`` numbers are agreed first.

    Clients that train add s and its squares, in round 1; what comes of it goes to a
    client with its first training message, and at evaluation to those that never
    trained. ``shuffled`` keeps all s and gives each client another one's;
    ``cluster-onehot`` sends the number of the latent group.
    """

    stat_mode: StatMode
    length: Length
    agreement: Agreement

    def init(self, initial: Params) -> tuple[Params, State]:
        if self.stat_mode == "cluster-onehot":
            if not self.groups:
                raise ValueError(
                    "conditional.stat-mode = 'cluster-onehot' is told latent groups, "
                    "which only a simulation knows"
                )
            if max(self.groups) >= self.length:
                raise ValueError(
                    f"conditional.length = {self.length} is too short for the "
                    f"{max(self.groups) + 1} latent groups of 'cluster-onehot'"
                )
        return initial, {}

    def phases(self, turn: Turn) -> Sequence[str]:
        asks = self.stat_mode == "shuffled" or self.agreement == "always"
        asks |= self.stat_mode == "moments" and self.agreement == "auto"
        return (AGREE, "train") if asks and turn.round == 1 else ("train",)

    def trains(self, turn: Turn) -> bool:
        return turn.phase != AGREE

    def participants(self, state: State, turn: Turn) -> Sequence[int]:
        if turn.phase == AGREE:
            return range(self.num_clients - self.unseen_clients)
        return turn.sampled

    def tasks(self, params: Params, state: State, turn: Turn) -> Iterator[Task]:
        return self._mail(params, state, sorted(self.participants(state, turn)), turn)

    def personal(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        return self._mail(params, state, clients, turn)

    def _mail(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        for client in clients:
            payload: dict[str, Params] = {}
            if turn.phase != AGREE:
                payload["model"] = params
            if "agreement" in state and client not in turn.last_trained:
                payload["agreement"] = state["agreement"]
            if "statistics" in state and client not in turn.last_trained:
                payload["other"] = {"s": self._others(state, client)}
            known = self.stat_mode == "cluster-onehot"
            yield Task(client, payload, {"group": self.groups[client]} if known else {})

    def _others(self, state: State, client: int) -> torch.Tensor:
        """Return the statistic of another client, the same one always."""
        rows = state["statistics"]["s"]
        clients = state["statistics"]["clients"].tolist()
        rng = np.random.default_rng([self.seed, len(clients)])
        order = [clients[index] for index in rng.permutation(len(clients))]
        if client in order:
            donor = order[(order.index(client) + 1) % len(order)]
        else:
            donor = order[client % len(order)]
        return rows[clients.index(donor)]

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        if turn.phase != AGREE:
            return super().expects(params, state, turn)
        names = ("s",) if self.stat_mode == "shuffled" else ("s", "squares")
        return {"statistic": {name: Spec((self.length,)) for name in names}}

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        if turn.phase != AGREE:
            return super().update(params, state, updates, turn)
        found = [(u.client, u.sent["statistic"]) for u in updates]
        if not found:
            raise TooFewReplies(f"round {turn.round}: nobody sent its statistic")
        if self.stat_mode == "shuffled":
            kept = {
                "clients": torch.tensor([client for client, _ in found]),
                "s": torch.stack([sent["s"] for _, sent in found]),
            }
            return params, {**state, "statistics": kept}
        sums, squares = (
            np.sum([sent[name].double().numpy() for _, sent in found], axis=0)
            for name in ("s", "squares")
        )
        mean, deviation = agree(sums, squares, len(found))
        agreed = {
            "mean": torch.from_numpy(mean).float(),
            "deviation": torch.from_numpy(deviation).float(),
        }
        return params, {**state, "agreement": agreed}
