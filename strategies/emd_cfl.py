"""EMD-CFL, server side (Zhang, Williams and Toni 2025, arXiv 2506.07769)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedapp import embedded
from fedapp.algorithm import Update
from fedapp.clusters import cluster_means, cluster_models, cluster_parts
from fedapp.params import Params, WeightedMean, select
from fedapp.strategy import RoundStrategy
from fedapp.transport import distinct_keys, neighbours, projected_width
from fedapp.turn import Expected, Spec, State, Task, Turn, specs_of

MANY = 40
"""Up to so many clients, each can embed under the encoder of every other."""

NO_KEY = -1


@dataclass(kw_only=True)
class EmdCfl(RoundStrategy):
    """Clients with the same neighbours, by distances of embeddings, share a model.

    The state has keys (sets of neighbours) and one model for each, and ``start``, the
    mean model of round 1, from which starts who never trained before. The bank has the
    model of each client after its first training, and its distances.

    A client that first trains in a later round is compared then, and keys are found
    anew: one that stays keeps its model, a new one starts from the mean of what its
    members have. The authors' variant recomputes rows in every round.
    """

    eps: Annotated[
        float, Field(gt=0, description="distance below which clients are neighbours")
    ]
    projection_ratio: Annotated[
        float, Field(gt=0, le=1, description="embedding width kept by the projection")
    ]
    encoder_mode: Annotated[
        Literal["auto", "pairs", "shared"],
        Field(description="embed under every client's encoder, or under one"),
    ]

    @property
    def _pairs(self) -> bool:
        few = self.num_clients - self.unseen_clients <= MANY
        return self.encoder_mode == "pairs" or (self.encoder_mode == "auto" and few)

    def init(self, initial: Params) -> tuple[Params, State]:
        members = torch.zeros((0, self.num_clients), dtype=torch.bool)
        nobody = torch.full((self.num_clients,), NO_KEY)
        keys = {"members": members, "of-client": nobody}
        return {}, {"start": initial, "keys": keys}

    def phases(self, turn: Turn) -> Sequence[str]:
        known = turn.bank.clients()
        rows = (embedded.row_of(turn, client) for client in known)
        missing = any(embedded.strangers(row, known) for row in rows)
        new = not set(turn.sampled) <= set(known)
        return ("train", "embed") if new or missing else ("train",)

    def trains(self, turn: Turn) -> bool:
        return turn.phase == "train"

    def tasks(self, params: Params, state: State, turn: Turn) -> Iterator[Task]:
        """Yield models to train; or encoders to embed under, donor by donor."""
        if turn.phase == "train":
            yield from self.personal(params, state, sorted(turn.sampled), turn)
            return
        clients = turn.bank.clients(fresh=True)
        shared = {"encoder": select(state["start"], "encoder")}
        for donor in clients:
            row = embedded.row_of(turn, donor)
            if not self._pairs:
                if not row.part("emb-val"):
                    yield Task(donor, shared, {"donor": donor, "own": True})
            elif others := embedded.strangers(row, clients):
                encoder = {"encoder": select(row.part("model"), "encoder")}
                for client in [donor, *others]:
                    whose = {"donor": donor, "own": client == donor}
                    yield Task(client, encoder, whose)

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        if turn.phase == "train":
            return {"model": specs_of(state["start"])}
        features = state["start"]["head.weight"].shape[1]
        width = projected_width(features, self.projection_ratio)
        rows = {"rows": Spec((None, width))}
        return {"emb-train": rows, "emb-val": rows}

    def check(self, update: Update, state: State, turn: Turn) -> None:
        if turn.phase == "embed":
            train, val = (len(update.sent[p]["rows"]) for p in ("emb-train", "emb-val"))
            if val == 0 or (train > 0) != update.asked["own"]:
                raise ValueError(f"it sent {train} and {val} embeddings")

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        if turn.phase == "embed":
            self._compare(updates, turn)
            return params, self._find_keys(state, turn)
        first = WeightedMean()

        def replies() -> Iterator[tuple[Params, Mapping[int, float]]]:
            for update in updates:
                model, count = update.sent["model"], update.num_examples
                if turn.round == 1:
                    first.add(model, count)
                if state["keys"]["of-client"][update.client] == NO_KEY:
                    embedded.keep_first(turn, update)
                holders = state["keys"]["members"][:, update.client].nonzero()
                yield model, dict.fromkeys(holders.flatten().tolist(), count)

        models = cluster_means(cluster_models(state), replies())
        start = first.value() if turn.round == 1 else state["start"]
        return params, {**state, "start": start, **cluster_parts(models)}

    def personal(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        """Yield the model of each client's key; the mean of round 1 without one."""
        models = cluster_models(state)
        for client in clients:
            key = int(state["keys"]["of-client"][client])
            yield Task(
                client, {"model": state["start"] if key == NO_KEY else models[key]}
            )

    def _compare(self, updates: Iterable[Update], turn: Turn) -> None:
        """Put what the embeddings say into the bank."""
        if self._pairs:
            found = embedded.compared_pairs(updates)
        else:
            for update in updates:
                embedded.keep_embeddings(turn, update)
            found = embedded.compared_rows(turn)
        for donor, distances in found:
            embedded.keep_distances(turn, donor, distances)

    def _find_keys(self, state: State, turn: Turn) -> State:
        """Return the keys by all distances known, and a model for each."""
        clients = turn.bank.clients(fresh=True)
        distances, known = embedded.distances_among(turn, clients)
        rows, index = distinct_keys(neighbours(distances, known, self.eps))
        members = np.zeros((len(rows), self.num_clients), dtype=np.bool_)
        members[:, clients] = rows
        of_client = np.full(self.num_clients, NO_KEY)
        of_client[clients] = index
        for client in clients:
            line = {"round": turn.round, "client": client, "cluster": of_client[client]}
            turn.log("emd-cfl/clusters.csv", line)
        keys = {
            "members": torch.from_numpy(members),
            "of-client": torch.from_numpy(of_client),
        }
        models = [_model_of(key, state, turn) for key in keys["members"]]
        return {"start": state["start"], "keys": keys, **cluster_parts(models)}


def _model_of(key: Tensor, before: State, turn: Turn) -> Params:
    """Return the model a key had; of a new one, the mean of what its members have."""
    keys, models = before["keys"], cluster_models(before)
    for old, model in zip(keys["members"], models, strict=True):
        if torch.equal(old, key):
            return model
    mean = WeightedMean()
    for client in key.nonzero().flatten().tolist():
        row, own = embedded.row_of(turn, client), int(keys["of-client"][client])
        held = row.part("model") if own == NO_KEY else models[own]
        mean.add(held, row.num_examples)
    return mean.value()
