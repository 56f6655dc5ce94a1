"""Clients that have sent no encoder, placed among the groups that there are.

Such a client fits a head on the frozen shared encoder and sends it. Its descriptor lies
in the subspace of the last refresh and is compared with that refresh's centroids. It
enters neither the Gram matrix, nor k-means, nor a prototype, so that nothing of any
other client depends on it.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedapp.bank import Bank
from fedapp.hdc.bank_rows import heads_of
from fedapp.hdc.grouping import memberships
from fedapp.hdc.heads import Array, Floats, descriptor
from fedapp.hdc.many import EXACT
from fedapp.hdc.refresh import Refresh
from fedapp.hdc.sample import sample_positions
from fedapp.params import Payload

PHASE = "newcomers"
"""The phase in which newcomers fit a head, before an evaluation."""

LANDMARKS = "landmarks"
"""Part of the state."""


@dataclass(frozen=True)
class Landmarks:
    """What a refresh leaves for placing others: its directions (C x r), and the
    centroids (G x rd) of its groups."""

    directions: Array
    centroids: Array


@dataclass(frozen=True)
class Place:
    """Where a client stands: inner products with the centroids, and memberships, both
    (G,). A head without a part in the directions has no similarity and weight 0
    everywhere, which stands for the population prototype."""

    similarity: Array
    weights: Array


def place(
    heads: Iterable[tuple[int, Floats]], landmarks: Landmarks, *, temperature: float
) -> dict[int, Place]:
    """Return where each client's head stands; heads are read one at a time."""
    found = {}
    for client, head in heads:
        own = descriptor(head, landmarks.directions)
        if own is None:
            nothing = np.zeros(len(landmarks.centroids))
            found[client] = Place(nothing, nothing)
            continue
        soft = memberships(own[None], landmarks.centroids, temperature=temperature)
        found[client] = Place(np.einsum("m,gm->g", own, landmarks.centroids), soft[0])
    return found


def landmarks_state(found: Refresh) -> Payload:
    """Return the landmarks of a refresh as state."""
    return {
        LANDMARKS: {
            "directions": torch.from_numpy(found.subspace.directions),
            "centroids": torch.from_numpy(found.centroids),
        }
    }


def landmarks_of(state: Payload) -> Landmarks | None:
    """Return the landmarks of the last refresh, if it left any."""
    if LANDMARKS not in state:
        return None
    marks = {name: leaf.numpy() for name, leaf in state[LANDMARKS].items()}
    return Landmarks(marks["directions"], marks["centroids"])


def late(
    bank: Bank, state: Payload, grouped: Container[int], *, temperature: float
) -> dict[int, Array]:
    """Return the memberships of clients that were not at the last refresh.

    Newcomers have theirs in ``state``; who trained since is placed by its entry.
    """
    landmarks = landmarks_of(state)
    if landmarks is None:
        return {}
    since = [k for k in bank.clients(fresh=True) if k not in grouped]
    placed = place(heads_of(bank, since), landmarks, temperature=temperature)
    return weights_of(state) | {k: found.weights for k, found in placed.items()}


def places_state(places: Mapping[int, Place]) -> Payload:
    """Return the memberships of newcomers as state; nothing if there are none."""
    if not places:
        return {}
    weights = np.stack([place.weights for place in places.values()])
    return {
        PHASE: {
            "clients": torch.tensor(list(places)),
            "weights": torch.from_numpy(weights),
        }
    }


def weights_of(state: Payload) -> dict[int, Array]:
    """Return the memberships of each newcomer."""
    if PHASE not in state:
        return {}
    clients: Sequence[int] = state[PHASE]["clients"].tolist()
    return dict(zip(clients, state[PHASE]["weights"].numpy(), strict=True))


def lines(
    places: Mapping[int, Place], ids: Sequence[int], *, seed: int
) -> Iterator[dict[str, int | float]]:
    """Yield a line of a table for each newcomer and group; ``ids`` are the lasting.

    Of very many newcomers it is those of a sample.
    """
    clients = list(places)
    for position in sample_positions(clients, EXACT, seed=seed):
        client, found = clients[position], places[clients[position]]
        for group, weight, alike in zip(
            ids, found.weights, found.similarity, strict=True
        ):
            yield {
                "client": client,
                "group": group,
                "membership": float(weight),
                "similarity": float(alike),
            }
