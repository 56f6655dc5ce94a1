"""Groups of more clients than can be compared pair by pair.

What costs the square of the number of clients is done on a seeded sample of them;
k-means takes mini-batches; long descriptors are clustered through a short random
projection, and the groups are then settled with the descriptors themselves. Time is
linear in the number of clients, and long descriptors are never in memory together.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from fedapp.hdc.blocks import LENGTH, Descriptors, projection
from fedapp.hdc.grouping import Grouping, Labels, NothingToGroup, soft_max
from fedapp.hdc.heads import NORM_FLOOR, Array
from fedapp.hdc.sample import sample_positions
from fedapp.hdc.settling import means_of, settle, sums_of
from fedapp.hdc.trial import distances_of, silhouette_of, try_counts

EXACT = 1000
"""Clients up to which everything is exact; beyond, the size of the sample."""

DENSE = 2**22
"""Numbers in all descriptors together from which on they are projected."""


@dataclass(frozen=True)
class Many:
    """The groups of the clients at ``positions`` (n,): those that have a direction.

    ``soft`` holds their memberships (n x G), ``sample`` the positions of the clients
    that were compared with each other, ``similarity`` their inner products.
    """

    positions: Labels
    grouping: Grouping
    soft: Array
    sample: Labels
    similarity: Array
    projected: bool


@dataclass(frozen=True)
class _Look:
    """What one pass over the descriptors leaves: rows to cluster, and the sample."""

    positions: Labels
    rows: Array
    sample: Labels
    compared: Array

    @property
    def inside(self) -> Labels:
        """Where among the rows the sample is."""
        return np.searchsorted(self.positions, self.sample)


def group_many(
    descriptors: Descriptors,
    *,
    max_groups: int,
    min_silhouette: float,
    temperature: float,
    seed: int,
    previous: Mapping[int, int],
) -> Many:
    """Group clients by the rule of ``choose_groups``, in time linear in their number.

    Silhouettes are those of the sample; a number of groups of which the sample does
    not see each is not considered.
    """
    clients = descriptors.clients
    wide = descriptors.length * len(clients) > DENSE and descriptors.length > LENGTH
    with threadpool_limits(limits=1):
        look = _look(descriptors, projected=wide, seed=seed)
        similarity = look.compared @ look.compared.T
        before = [previous.get(clients[place]) for place in look.positions]
        apart = distances_of(similarity)
        labels, silhouettes = try_counts(
            look.rows, look.inside, apart, before, max_groups=max_groups, seed=seed
        )
        if wide:
            few = labels[look.inside]
            means = means_of(few, sums_of(look.compared, few, int(labels.max()) + 1))
            labels, sums = settle(descriptors, labels, means)
        else:
            sums = sums_of(look.rows, labels, int(labels.max()) + 1)
        labels, sums = _numbered(labels, sums)
        value = silhouette_of(apart, labels[look.inside], len(sums))
        if value is not None:
            silhouettes[len(sums)] = value
        if value is None or value < min_silhouette:
            value = None
            labels, sums = np.zeros_like(labels), sums.sum(axis=0, keepdims=True)
        centroids = _directions(sums, labels)
        soft = [
            soft_max(rows @ centroids.T, temperature=temperature)
            for _, rows in descriptors.blocks()
        ]
    return Many(
        positions=look.positions,
        grouping=Grouping(labels, centroids, value, silhouettes),
        soft=np.concatenate(soft),
        sample=look.sample,
        similarity=similarity,
        projected=wide,
    )


def _look(descriptors: Descriptors, *, projected: bool, seed: int) -> _Look:
    picks = sample_positions(descriptors.clients, EXACT, seed=seed)
    short = projection(descriptors.length, seed=seed) if projected else None
    positions, rows, sample, compared = [], [], [], []
    for places, block in descriptors.blocks():
        picked = np.isin(places, picks)
        positions.append(places)
        rows.append(block if short is None else block @ short)
        sample.append(places[picked])
        compared.append(block[picked])
    if not any(len(places) for places in sample):
        raise NothingToGroup("no client has a head with a direction")
    return _Look(
        np.concatenate(positions),
        np.concatenate(rows),
        np.concatenate(sample),
        np.concatenate(compared),
    )


def _numbered(labels: Labels, sums: Array) -> tuple[Labels, Array]:
    """Number groups by their first client, leaving out those without one."""
    groups, first = np.unique(labels, return_index=True)
    order = groups[np.argsort(first)]
    name = np.zeros(len(sums), dtype=np.int64)
    name[order] = np.arange(len(order))
    return name[labels], sums[order]


def _directions(sums: Array, labels: Labels) -> Array:
    means = sums / np.bincount(labels, minlength=len(sums))[:, None]
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    return np.where(norms < NORM_FLOOR, 0.0, means / np.maximum(norms, NORM_FLOOR))
