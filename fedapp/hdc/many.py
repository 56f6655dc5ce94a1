"""Groups of more clients than can be compared pair by pair.

What costs the square of the number of clients is done on a seeded sample of them;
k-means takes mini-batches; long descriptors are clustered through a short random
projection, and the groups are then settled with the descriptors themselves. Time is
linear in the number of clients, and long descriptors are never in memory together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from fedapp.hdc.blocks import LENGTH, Descriptors, projection
from fedapp.hdc.grouping import (
    SAME,
    TIE,
    Grouping,
    Labels,
    k_means,
    means_under,
    memberships,
)
from fedapp.hdc.heads import NORM_FLOOR, Array
from fedapp.hdc.sample import sample_positions
from fedapp.hdc.settling import settle, sums_under

EXACT = 1000
"""Clients up to which everything is exact; beyond, the size of the sample."""

DENSE = 2**22
"""Numbers in all descriptors together from which on they are projected."""

STEPS = 20
"""Of k-means over all rows, at most."""


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
    clients = descriptors.heads.clients
    wide = descriptors.length * len(clients) > DENSE and descriptors.length > LENGTH
    with threadpool_limits(limits=1):
        look = _look(descriptors, projected=wide, seed=seed)
        similarity = look.compared @ look.compared.T
        before = [previous.get(clients[place]) for place in look.positions]
        apart = _distances(similarity)
        labels, silhouettes = _cluster(look, before, apart, max_groups, seed=seed)
        labels, sums = (settle if wide else sums_under)(descriptors, labels)
        labels, sums = _numbered(labels, sums)
        value = _silhouette(apart, labels[look.inside], len(sums))
        if value is not None:
            silhouettes[len(sums)] = value
        if value is None or value < min_silhouette:
            value = None
            labels, sums = np.zeros_like(labels), sums.sum(axis=0, keepdims=True)
        centroids = _directions(sums, labels)
        soft = [
            memberships(rows, centroids, temperature=temperature)
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


def mini_batch(
    rows: Array,
    sample: Labels,
    groups: int,
    *,
    seed: int,
    start: Array | None = None,
) -> Labels:
    """Return the labels of lowest inertia from two starts; ties go to ``start``.

    The other start is the best of ten k-means++ on the rows of ``sample``, taken on by
    mini-batches of all rows. Both end with steps over all rows. Run it on one thread.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans

    few = rows[sample]
    centres = means_under(few, k_means(few, groups, seed=seed).tolist(), groups)
    starts = [] if start is None else [start]
    if centres is not None:
        batches = MiniBatchKMeans(
            groups,
            init=centres,
            n_init=1,
            batch_size=1024,
            random_state=seed,
            compute_labels=False,
        )
        starts.append(batches.fit(rows).cluster_centers_)
    best = None
    for chosen in starts:
        found = KMeans(
            groups,
            init=chosen,
            n_init=1,
            max_iter=STEPS,
            tol=0.0,
            random_state=seed,
            algorithm="lloyd",
        ).fit(rows)
        if best is None or found.inertia_ < best.inertia_ * (1 - TIE) - SAME * TIE:
            best = found
    if best is None:
        return np.zeros(len(rows), dtype=np.int64)
    return np.asarray(best.labels_, dtype=np.int64)


def _look(descriptors: Descriptors, *, projected: bool, seed: int) -> _Look:
    picks = sample_positions(descriptors.heads.clients, EXACT, seed=seed)
    short = projection(descriptors.length, seed=seed) if projected else None
    positions, rows, sample, compared = [], [], [], []
    for places, block in descriptors.blocks():
        picked = np.isin(places, picks)
        positions.append(places)
        rows.append(block if short is None else block @ short)
        sample.append(places[picked])
        compared.append(block[picked])
    if not any(len(places) for places in sample):
        raise ValueError("no client has a head with a direction: all heads are zero")
    return _Look(
        np.concatenate(positions),
        np.concatenate(rows),
        np.concatenate(sample),
        np.concatenate(compared),
    )


def _distances(similarity: Array) -> Array:
    """Return the distances of unit vectors, from their inner products."""
    apart = np.sqrt(np.maximum(2 - 2 * similarity, 0))
    np.fill_diagonal(apart, 0)
    return np.asarray(apart)


def _cluster(
    look: _Look,
    before: Sequence[int | None],
    apart: Array,
    max_groups: int,
    *,
    seed: int,
) -> tuple[Labels, dict[int, float]]:
    """Return the labels whose silhouette is largest, and the silhouette of each count.

    ``before`` has the group of every row at the refresh before.
    """
    best = np.zeros(len(look.rows), dtype=np.int64)
    silhouettes: dict[int, float] = {}
    top, earlier = -np.inf, len(set(before) - {None})
    limit = min(max_groups, len(look.rows) - 1)
    distinct = _distinct(apart, limit)
    for count in range(2, distinct + 1):
        start = means_under(look.rows, before, count) if count == earlier else None
        labels = mini_batch(look.rows, look.inside, count, seed=seed, start=start)
        value = _silhouette(apart, labels[look.inside], count)
        if value is None:
            continue
        silhouettes[count] = value
        if value > top + TIE:
            top, best = value, labels
    return best, silhouettes


def _distinct(apart: Array, limit: int) -> int:
    """Return how many of the sample differ from each other, at most ``limit``."""
    nearest, found = apart[0], 1
    while found < limit and nearest.max() > SAME:
        nearest = np.minimum(nearest, apart[np.argmax(nearest)])
        found += 1
    return found


def _silhouette(apart: Array, labels: Labels, groups: int) -> float | None:
    """Return the mean silhouette of the sample, None if it does not see all groups."""
    from sklearn.metrics import silhouette_score

    if not 2 <= groups < len(labels) or len(np.unique(labels)) < groups:
        return None
    return float(silhouette_score(apart, labels, metric="precomputed"))


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
