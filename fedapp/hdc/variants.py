"""Other memberships from the same refresh: the paired ablations of 23.7.

A snapshot holds inner products of descriptors, and labels. That is enough for the
scores ``h . mu`` of every client and group, whatever the basis of the descriptors was,
so that nothing is grouped anew. Clients without a descriptor keep label -1 and a row
of zeros, which means the population prototype.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedapp.hdc.grouping import soft_max
from fedapp.hdc.heads import NORM_FLOOR, Array
from fedapp.hdc.refresh import Groups
from fedapp.hdc.stability import Snapshot


def centroid_scores(found: Snapshot) -> Array:
    """Return ``h_k . mu_g`` for each client of the snapshot and each group, n x G.

    ``mu_g`` is the normalised mean of the group's descriptors; 0 if that has no
    direction.
    """
    inside = np.eye(int(found.labels.max()) + 1)[found.labels]
    toward = np.einsum("nm,mg->ng", found.similarity, inside)
    sizes = np.sqrt(np.maximum((inside * toward).sum(axis=0), 0.0))
    directed = sizes / inside.sum(axis=0) >= NORM_FLOOR
    return np.asarray(np.where(directed, toward / np.where(directed, sizes, 1.0), 0.0))


def soft_groups(
    clients: Sequence[int], found: Snapshot, *, temperature: float
) -> Groups:
    """Return the snapshot's groups with soft-max memberships, for all ``clients``."""
    weights = soft_max(centroid_scores(found), temperature=temperature)
    return _groups(clients, found, weights)


def hard_groups(clients: Sequence[int], found: Snapshot) -> Groups:
    """Return memberships of 1 at the nearest centroid, the first of equals."""
    scores = centroid_scores(found)
    nearest = np.eye(scores.shape[1])[np.argmax(scores, axis=1)]
    return _groups(clients, found, nearest)


def one_group(groups: Groups) -> Groups:
    """Return all clients that are in some group as one group."""
    labels = np.where(groups.labels >= 0, 0, -1)
    weights = (labels[:, None] == 0).astype(np.float64)
    return replace(groups, labels=labels, weights=weights, ids=(0,))


def random_groups(groups: Groups, rng: np.random.Generator) -> Groups:
    """Return the same groups with other members: who is where is drawn at random.

    A client takes over label and memberships of another, so that the sizes of groups
    and how sharp memberships are stay as they were.
    """
    places = np.flatnonzero(groups.labels >= 0)
    drawn = rng.permutation(places)
    labels, weights = groups.labels.copy(), groups.weights.copy()
    labels[places], weights[places] = groups.labels[drawn], groups.weights[drawn]
    return replace(groups, labels=labels, weights=weights)


def _groups(clients: Sequence[int], found: Snapshot, weights: Array) -> Groups:
    place = {client: index for index, client in enumerate(clients)}
    rows = [place[client] for client in found.clients.tolist()]
    labels = np.full(len(clients), -1, dtype=np.int64)
    labels[rows] = found.labels
    spread = np.zeros((len(clients), weights.shape[1]))
    spread[rows] = weights
    return Groups(clients, labels, spread, tuple(range(weights.shape[1])))
