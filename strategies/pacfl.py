"""PACFL, server side (Vahidian et al. 2023, arXiv 2209.10526)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from fedapp.algorithm import Update
from fedapp.angles import (
    Array,
    Labels,
    Linkage,
    Proximity,
    angle,
    angles,
    cluster,
    nearest_cluster,
    to_compare,
)
from fedapp.clusters import cluster_means, cluster_models, cluster_parts
from fedapp.params import Params
from fedapp.strategy import RoundStrategy
from fedapp.turn import Expected, Spec, State, Task, Turn, specs_of

UNSIGNED = -1


@dataclass(kw_only=True)
class Pacfl(RoundStrategy):
    """Cluster clients once, by angles between their data; then FedAvg in each cluster.

    Signatures are in the bank, the models of the clusters in the state. All clusters
    start from the common initial model. A client that signs later, because it was away
    or its reply was dropped, joins the nearest cluster, or, if that is farther than
    ``beta``, opens a new one that starts from the nearest one's model. Clients that
    never train are not clustered; they get the model of the nearest cluster.
    """

    beta: Annotated[
        float, Field(ge=0, le=180, description="angle at which clusters stay apart")
    ]
    n_clusters: Annotated[
        int, Field(ge=0, description="so many clusters, whatever beta; 0: by beta")
    ]
    proximity: Annotated[
        Proximity,
        Field(description="smallest angle of two vectors, with its sign, or of spans"),
    ]
    linkage: Annotated[Linkage, Field(description="distance of two clusters")]

    def init(self, initial: Params) -> tuple[Params, State]:
        unsigned = torch.full((self.num_clients,), UNSIGNED)
        return {}, {"clusters": {"of-client": unsigned}, **cluster_parts([initial])}

    def phases(self, turn: Turn) -> Sequence[str]:
        some = len(turn.bank.clients()) < turn.num_clients
        return ("signature", "train") if some else ("train",)

    def trains(self, turn: Turn) -> bool:
        return turn.phase == "train"

    def participants(self, state: State, turn: Turn) -> Sequence[int]:
        if turn.phase == "signature":
            signed = set(turn.bank.clients())
            return [k for k in range(turn.num_clients) if k not in signed]
        clusters = clusters_of(state)
        return [k for k in turn.sampled if clusters[k] != UNSIGNED]

    def tasks(self, params: Params, state: State, turn: Turn) -> Iterator[Task]:
        clients = sorted(self.participants(state, turn))
        if turn.phase == "signature":
            return (Task(client, {}) for client in clients)
        return self.personal(params, state, clients, turn)

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        if turn.phase == "signature":
            return {"sketch": {"vectors": Spec((None, None))}}
        return {"model": specs_of(cluster_models(state)[0])}

    def check(self, update: Update, state: State, turn: Turn) -> None:
        if turn.phase == "signature":
            lengths = update.sent["sketch"]["vectors"].norm(dim=0)
            if not torch.allclose(lengths, torch.ones_like(lengths), atol=1e-3):
                raise ValueError("its signature has vectors of another length than 1")

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        if turn.phase == "signature":
            return params, self._sign(state, updates, turn)
        clusters = clusters_of(state)
        replies = (
            (u.sent["model"], {int(clusters[u.client]): u.num_examples})
            for u in updates
        )
        models = cluster_means(cluster_models(state), replies)
        return params, {**state, **cluster_parts(models)}

    def personal(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        """Yield the model of each client's cluster; the largest's if it has none."""
        found, models = clusters_of(state), cluster_models(state)
        signed = found[found != UNSIGNED]
        largest = int(np.bincount(signed).argmax()) if len(signed) else 0
        for client in clients:
            own = largest if found[client] == UNSIGNED else int(found[client])
            yield Task(client, {"model": models[own]})

    def _sign(self, state: State, updates: Iterable[Update], turn: Turn) -> State:
        """Keep signatures; cluster the clients, or find the newcomers a cluster."""
        for update in updates:
            turn.bank.write(
                update.client,
                update.sent,
                num_examples=update.num_examples,
                round=turn.round,
            )
        clusters, models = clusters_of(state).copy(), cluster_models(state)
        signed = turn.bank.clients(fresh=True)
        trainable = [k for k in signed if self._may_train(k)]
        if (clusters == UNSIGNED).all() and trainable:
            distances = angles((_signature(turn, k) for k in trainable), self.proximity)
            clusters[trainable] = cluster(
                distances, self.linkage, beta=self.beta, count=self.n_clusters
            )
            models *= int(clusters.max()) + 1
        for client in [k for k in signed if clusters[k] == UNSIGNED and trainable]:
            nearest, far = self._nearest(client, clusters, turn)
            clusters[client] = nearest
            if far > self.beta and not self.n_clusters and self._may_train(client):
                clusters[client] = len(models)
                models.append(models[nearest])
        for client in np.flatnonzero(clusters != clusters_of(state)).tolist():
            place = {"client": client, "cluster": int(clusters[client])}
            turn.log("pacfl/clusters.csv", {"round": turn.round, **place})
        of_client = {"of-client": torch.from_numpy(clusters)}
        return {"clusters": of_client, **cluster_parts(models)}

    def _nearest(self, client: int, clusters: Labels, turn: Turn) -> tuple[int, float]:
        """Return the nearest cluster, by its members that train, and its angle."""
        own = to_compare(_signature(turn, client), self.proximity)
        members = [
            k
            for k in np.flatnonzero(clusters != UNSIGNED).tolist()
            if self._may_train(k)
        ]
        to_members = [
            angle(own, to_compare(_signature(turn, k), self.proximity), self.proximity)
            for k in members
        ]
        return nearest_cluster(np.array(to_members), clusters[members])

    def _may_train(self, client: int) -> bool:
        return client < self.num_clients - self.unseen_clients


def clusters_of(state: State) -> Labels:
    """Return the cluster of each client, ``UNSIGNED`` for those without one."""
    labels: Labels = state["clusters"]["of-client"].numpy()
    return labels


def _signature(turn: Turn, client: int) -> Array:
    row = turn.bank.read(client, fresh=True)
    assert row is not None
    return row.part("sketch")["vectors"].double().numpy()
