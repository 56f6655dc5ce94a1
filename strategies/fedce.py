"""FedCE, server side (Cai et al. 2023; details after a re-implementation).

Cai, Chen, Cao, He and Li, "FedCE: Personalized Federated Learning Method based on
Clustering Ensembles", ACM Multimedia 2023. That this is the method meant, and how it
works, is second-hand: the paper's text was not available.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from fedapp.algorithm import Update
from fedapp.clusters import cluster_models, cluster_parts, cluster_starts
from fedapp.params import Params, Payload
from fedapp.soft_clusters import SoftmaxMean, blend
from fedapp.strategy import RoundStrategy
from fedapp.turn import Expected, Spec, State, Task, Turn, specs_of


@dataclass(kw_only=True)
class FedCE(RoundStrategy):
    """Every cluster is a mean of all replies, by soft-max over how clients belong.

    The history h (clients, clusters) is in the state, with how often each client took
    part.
    """

    clusters: Annotated[int, Field(ge=1, description="cluster models")]
    history_norm: Annotated[
        Literal["none", "mean"],
        Field(description="histories as sums, or as means over participations"),
    ]
    evaluated: Annotated[
        Literal["best", "mixture"],
        Field(description="the model that fits training data best, or a blend of all"),
    ]

    def init(self, initial: Params) -> tuple[Params, State]:
        models = cluster_starts(
            initial, self.clusters, seed=self.seed, other_start=self.other_start
        )
        history = {
            "h": torch.zeros((self.num_clients, self.clusters), dtype=torch.float64),
            "rounds": torch.zeros(self.num_clients, dtype=torch.int64),
        }
        return {}, {"history": history, **cluster_parts(models)}

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        return cluster_parts(cluster_models(state))

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        gains = {"gains": Spec((self.clusters,))}
        return {"model": specs_of(cluster_models(state)[0]), "assoc": gains}

    def check(self, update: Update, state: State, turn: Turn) -> None:
        gains = update.sent["assoc"]["gains"]
        if bool((gains < 0).any()) or float(gains.max()) != 1.0:
            raise ValueError(
                f"its associations are {gains.tolist()}: the best is not 1"
            )

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        history = {name: leaf.clone() for name, leaf in state["history"].items()}
        means = [SoftmaxMean() for _ in range(self.clusters)]
        for update in updates:
            client = update.client
            history["h"][client] += update.sent["assoc"]["gains"].double()
            history["rounds"][client] += 1
            own = history["h"][client]
            if self.history_norm == "mean":
                own = own / history["rounds"][client]
            for cluster, score in enumerate(own.tolist()):
                means[cluster].add(update.sent["model"], score)
                line = {"client": client, "cluster": cluster, "history": score}
                best = update.metrics["best"] == cluster
                turn.log(
                    "fedce/history.csv", {"round": turn.round, **line, "best": best}
                )
        models = [
            mean.value(otherwise=model)
            for mean, model in zip(means, cluster_models(state), strict=True)
        ]
        return params, {"history": history, **cluster_parts(models)}

    def personal(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        """Yield all models for the client to choose from, or its mixture."""
        if self.evaluated == "best":
            yield from super().personal(params, state, clients, turn)
            return
        models, h = cluster_models(state), state["history"]["h"].numpy()
        for client in clients:
            beta = softmax(h[client] / turn.round)
            yield Task(client, {"model": blend(models, beta.tolist())})


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``exp(scores)`` as shares."""
    powers = np.exp(scores - scores.max())
    shares: NDArray[np.float64] = powers / powers.sum()
    return shares
