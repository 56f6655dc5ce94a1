"""IFCA, server side (Ghosh et al. 2020, arXiv 2006.04088, Algorithm 1)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from logging import INFO, getLogger
from typing import Annotated

import torch
from pydantic import Field

from fedapp.algorithm import Update
from fedapp.clusters import cluster_parts, cluster_starts, part_of
from fedapp.params import Params, Payload, WeightedMean, select
from fedapp.strategy import RoundStrategy
from fedapp.turn import Expected, State, Turn, specs_of

log = getLogger("flwr")

TRIAL = "choose-"


@dataclass(kw_only=True)
class Ifca(RoundStrategy):
    """Each participant trains the cluster model that fits it best; means by cluster.

    A cluster that nobody chose keeps its model, for ever if need be. Means are weighted
    by examples (the paper: equal sizes). With ``share_encoder`` (the paper's weight
    sharing) the encoder is one mean over all participants and clusters have heads.

    With ``init_retries`` the other clusters' initial models are drawn anew, before
    training, until every cluster is chosen by ``init_share`` of the clients: what the
    authors' CIFAR script does.
    """

    clusters: Annotated[int, Field(ge=1, description="number of cluster models")]
    share_encoder: Annotated[
        bool, Field(description="one encoder for all; clusters differ in their heads")
    ]
    init_retries: Annotated[
        int, Field(ge=0, description="how often initial models may be drawn anew")
    ]
    init_share: Annotated[
        float,
        Field(ge=0, le=1, description="share of clients that each must attract then"),
    ]

    def init(self, initial: Params) -> tuple[Params, State]:
        params = select(initial, "encoder") if self.share_encoder else {}
        return params, {**self._drawn(initial, 0), **self._trials(initial)}

    def _drawn(self, initial: Params, attempt: int) -> dict[str, Params]:
        starts = cluster_starts(
            initial,
            self.clusters,
            seed=self.seed,
            other_start=self.other_start,
            attempt=attempt,
        )
        if self.share_encoder:
            starts = [select(model, "head") for model in starts]
        return cluster_parts(starts)

    def _trials(self, initial: Params) -> dict[str, Params]:
        """Return what drawing anew needs to know, if that may happen."""
        if not self.init_retries:
            return {}
        return {"initial": initial, "trials": {"settled": torch.tensor(False)}}

    def phases(self, turn: Turn) -> Sequence[str]:
        if turn.round > 1:
            return ("train",)
        # The last draw is not tried: it is taken whatever it attracts.
        return (*(f"{TRIAL}{i}" for i in range(self.init_retries)), "train")

    def trains(self, turn: Turn) -> bool:
        return not turn.phase.startswith(TRIAL)

    def participants(self, state: State, turn: Turn) -> Sequence[int]:
        if not turn.phase.startswith(TRIAL):
            return turn.sampled
        if bool(state["trials"]["settled"]):
            return ()
        return range(self.num_clients - self.unseen_clients)

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        models = {part_of(g): state[part_of(g)] for g in range(self.clusters)}
        return {"encoder": params, **models} if self.share_encoder else models

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        if turn.phase.startswith(TRIAL):
            return {}
        model = specs_of(state[part_of(0)])
        if self.share_encoder:
            return {"encoder": specs_of(params), "head": model}
        return {"model": model}

    def check(self, update: Update, state: State, turn: Turn) -> None:
        chosen = update.metrics.get("cluster")
        if chosen not in range(self.clusters):
            raise ValueError(f"it chose cluster {chosen} of {self.clusters}, from 0")

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        if turn.phase.startswith(TRIAL):
            return params, self._tried(state, [_chosen(u) for u in updates], turn)
        encoder, means = WeightedMean(), dict[int, WeightedMean]()
        choices, examples = dict[int, int](), Counter[int]()
        own = "head" if self.share_encoder else "model"
        for update in updates:
            cluster = _chosen(update)
            mean = means.setdefault(cluster, WeightedMean())
            mean.add(update.sent[own], update.num_examples)
            if self.share_encoder:
                encoder.add(update.sent["encoder"], update.num_examples)
            choices[update.client] = cluster
            examples[cluster] += update.num_examples
        self._log(choices, examples, turn)
        new = {part_of(cluster): mean.value() for cluster, mean in means.items()}
        kept = {k: v for k, v in state.items() if k not in ("initial", "trials")}
        after = encoder.value() if self.share_encoder else params
        return after, {**kept, **new}

    def _tried(self, state: State, choices: Sequence[int], turn: Turn) -> State:
        """Keep the initial models if all attract enough clients, else draw anew."""
        if bool(state["trials"]["settled"]) or not choices:
            return state
        fewest = min(Counter(choices)[cluster] for cluster in range(self.clusters))
        settled = fewest >= self.init_share * len(choices)
        attempt = int(turn.phase.removeprefix(TRIAL))
        log.log(
            INFO,
            "initial models %s: the least chosen attracts %s of %s clients%s",
            attempt,
            fewest,
            len(choices),
            "" if settled else "; drawn anew",
        )
        new = {} if settled else self._drawn(state["initial"], attempt + 1)
        return {**state, **new, "trials": {"settled": torch.tensor(settled)}}

    def _log(self, choices: dict[int, int], examples: Counter[int], turn: Turn) -> None:
        counts = Counter(choices.values())
        for client, cluster in choices.items():
            row = {"round": turn.round, "client": client, "cluster": cluster}
            turn.log("ifca/choices.csv", row)
        for cluster in range(self.clusters):
            turn.log(
                "ifca/clusters.csv",
                {
                    "round": turn.round,
                    "cluster": cluster,
                    "clients": counts[cluster],
                    "examples": examples[cluster],
                },
            )


def _chosen(update: Update) -> int:
    return int(update.metrics["cluster"])
