"""FedSoft, server side (Ruan and Joe-Wong 2022, arXiv 2112.06053, Algorithm 1)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from fedapp.algorithm import Update
from fedapp.clusters import (
    cluster_means,
    cluster_models,
    cluster_parts,
    cluster_starts,
)
from fedapp.params import Params, Payload
from fedapp.soft_clusters import blend, drawn, relative_importance
from fedapp.strategy import RoundStrategy
from fedapp.turn import Expected, Spec, State, Task, Turn, specs_of


@dataclass(kw_only=True)
class FedSoft(RoundStrategy):
    """Cluster models, and how important each is to each client.

    Every ``estimate_every`` rounds all clients estimate u. Then, for every cluster,
    clients are drawn by importance; what they train are their personal models, and the
    cluster's is the mean of those. This replaces the shared sample S_t, whose size is
    what the draws of all clusters have together (``clients_per_cluster`` = 0).
    Departure: without ``selection`` S_t trains, where the paper has all clients.
    """

    clusters: Annotated[int, Field(ge=1, description="cluster models")]
    estimate_every: Annotated[
        int, Field(ge=1, description="rounds between estimates of importance")
    ]
    clients_per_cluster: Annotated[
        int, Field(ge=0, description="drawn for each cluster; 0: its part of a sample")
    ]
    selection: Annotated[
        bool, Field(description="draw by importance; else weigh the sample by it")
    ]
    evaluated: Annotated[
        Literal["personal", "mixture"],
        Field(description="own models, or mixtures of cluster models"),
    ]

    def init(self, initial: Params) -> tuple[Params, State]:
        models = cluster_starts(
            initial, self.clusters, seed=self.seed, other_start=self.other_start
        )
        nothing = torch.zeros((self.num_clients, self.clusters), dtype=torch.float64)
        examples = torch.zeros(self.num_clients, dtype=torch.int64)
        return {}, {
            "importance": {"u": nothing, "examples": examples},
            **cluster_parts(models),
        }

    def phases(self, turn: Turn) -> Sequence[str]:
        due = (turn.round - 1) % self.estimate_every == 0
        return ("estimate", "train") if due else ("train",)

    def trains(self, turn: Turn) -> bool:
        return turn.phase == "train"

    def participants(self, state: State, turn: Turn) -> Sequence[int]:
        if turn.phase == "estimate":
            return range(turn.num_clients)
        return sorted({client for own in self._chosen(state, turn) for client in own})

    def tasks(self, params: Params, state: State, turn: Turn) -> Iterator[Task]:
        clients = self.participants(state, turn)
        if turn.phase == "train":
            for client in clients:
                yield self._mixture(client, state)
            return
        payload: Payload = cluster_parts(cluster_models(state))
        for client in clients:
            yield Task(client, payload)

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        if turn.phase == "estimate":
            return {"u": {"share": Spec((self.clusters,))}}
        return {"model": specs_of(cluster_models(state)[0])}

    def check(self, update: Update, state: State, turn: Turn) -> None:
        if turn.phase == "estimate":
            u = update.sent["u"]["share"]
            if bool((u < 0).any()) or bool((u > 1).any()) or not bool(u.any()):
                raise ValueError(f"its importances are {u.tolist()}")

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        if turn.phase == "estimate":
            return params, self._estimated(state, updates, turn)
        weights = self._weights(state, turn)
        replies = ((u.sent["model"], weights[u.client]) for u in updates)
        models = cluster_means(cluster_models(state), replies)
        return params, {**state, **cluster_parts(models)}

    def personal(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        """Yield nothing to who has a model of its own, else its mixture."""
        for client in clients:
            own = self.evaluated == "personal" and client in turn.last_trained
            yield Task(client, {}) if own else self._mixture(client, state)

    def _mixture(self, client: int, state: State) -> Task:
        """Return cbar and U; the plain mean of clusters for who never estimated."""
        weights: list[float] = state["importance"]["u"][client].tolist()
        anchor = blend(cluster_models(state), weights)
        return Task(client, {"anchor": anchor}, {"total": sum(weights)})

    def _estimated(self, state: State, updates: Iterable[Update], turn: Turn) -> State:
        found = {name: leaf.clone() for name, leaf in state["importance"].items()}
        for update in updates:
            share = update.sent["u"]["share"]
            found["u"][update.client] = share.double()
            found["examples"][update.client] = update.num_examples
            for number, own in enumerate(share.tolist()):
                line = {"client": update.client, "cluster": number, "importance": own}
                turn.log("fedsoft/importance.csv", {"round": turn.round, **line})
        return {**state, "importance": found}

    def _relative(self, state: State) -> NDArray[np.float64]:
        """Return v of the clients that may train."""
        may_train = slice(self.num_clients - self.unseen_clients)
        known = {
            name: leaf.numpy()[may_train] for name, leaf in state["importance"].items()
        }
        return relative_importance(known["u"], known["examples"])

    def _chosen(self, state: State, turn: Turn) -> list[list[int]]:
        """Return the clients that train for each cluster: the same at every call."""
        v = self._relative(state)
        if not self.selection:
            return [[k for k in turn.sampled if own[k] > 0] for own in v.T]
        rng = turn.generator()
        count = self.clients_per_cluster or ceil(len(turn.sampled) / self.clusters)
        return [drawn(own, count, rng) for own in v.T]

    def _weights(self, state: State, turn: Turn) -> dict[int, dict[int, float]]:
        """Return the weight of each client in every cluster that it trains for."""
        v = self._relative(state)
        weights: dict[int, dict[int, float]] = {}
        for cluster, clients in enumerate(self._chosen(state, turn)):
            for client in clients:
                own = 1.0 if self.selection else float(v[client, cluster])
                weights.setdefault(client, {})[cluster] = own
        return weights
