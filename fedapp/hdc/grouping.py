"""Choosing groups of clients from unit descriptors (specification 23.3 e to h).

Rows stand for clients. Bits do not depend on the order of the rows, because clients
are sorted by id before anything random is drawn, nor on the number of threads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fedapp.hdc.heads import NORM_FLOOR, Array

Labels = NDArray[np.int64]

SAME = 1e-6
"""Distance below which two descriptors count as one: the squared distances that
k-means compares carry errors of about 1e-15."""

TIE = 1e-9
"""Relative difference of inertias, or difference of silhouettes, that is a tie."""


class NothingToGroup(ValueError):
    """No client has a descriptor."""


@dataclass(frozen=True)
class Grouping:
    """A partition of the clients into G groups.

    ``labels`` (n,) are 0 to G - 1, in the order of the rows given; groups are numbered
    by their smallest client. ``centroids`` (G x length) are normalised means.
    ``silhouettes`` has the mean silhouette of every count tried, so not of 1;
    ``silhouette`` is that of the count chosen, None for one group.
    """

    labels: Labels
    centroids: Array
    silhouette: float | None
    silhouettes: Mapping[int, float]


def choose_groups(
    clients: Sequence[int],
    descriptors: Array,
    *,
    max_groups: int,
    min_silhouette: float,
    seed: int,
    previous: Mapping[int, int],
) -> Grouping:
    """Return the k-means partition whose mean silhouette is largest.

    Counts from 2 to ``max_groups`` are tried, as far as there are more clients than
    groups and as many distinct descriptors. Ties go to the smaller count; below
    ``min_silhouette`` all clients form one group. ``previous`` (client to group, empty
    at first) gives one more start to the count of groups it has.
    """
    if len(set(clients)) != len(descriptors) or len(clients) != len(descriptors):
        raise ValueError(
            "need one row per client, each client once, and at least one; "
            f"got {len(clients)} clients and {len(descriptors)} rows"
        )
    if len(descriptors) == 0:
        raise ValueError("need at least one client with a descriptor; got none")
    # Imported here: it takes seconds, and every worker imports this file.
    from sklearn.metrics import silhouette_score

    order = np.argsort(np.asarray(clients))
    rows = np.ascontiguousarray(descriptors[order], dtype=np.float64)
    before = [previous.get(clients[position]) for position in order]
    near = _in_span(rows)

    best = np.zeros(len(rows), dtype=np.int64)
    silhouettes: dict[int, float] = {}
    top = -np.inf
    with threadpool_limits(limits=1):
        limit = min(max_groups, len(rows) - 1)
        for count in range(2, len(_spread(near, near[:1], limit)) + 1):
            warm = count == len(set(previous.values()))
            start = means_under(near, before, count) if warm else None
            labels = k_means(near, count, seed=seed, start=start)
            if len(np.unique(labels)) < count:
                continue
            silhouettes[count] = float(silhouette_score(near, labels))
            if silhouettes[count] > top + TIE:
                top, best = silhouettes[count], labels
    if top < min_silhouette:
        best = np.zeros_like(best)

    groups, first = np.unique(best, return_index=True)
    best = np.argsort(np.argsort(first))[best]
    labels = np.empty_like(best)
    labels[order] = best
    return Grouping(
        labels=labels,
        centroids=np.stack([_direction(rows[best == g]) for g in range(len(groups))]),
        silhouette=silhouettes[len(groups)] if len(groups) > 1 else None,
        silhouettes=silhouettes,
    )


def k_means(
    rows: Array, groups: int, *, seed: int, start: Array | None = None
) -> Labels:
    """Return the labels of lowest inertia over ten k-means++ starts and ``start``.

    ``start`` holds one centre per group and wins ties. A group that empties on the way
    is re-seeded with the point farthest from its centre (scikit-learn does that).
    The draws depend on the order of the rows: give clients in ascending order. Run it
    on one thread, or the order of summation may differ from run to run.
    """
    from sklearn.cluster import KMeans

    # Tolerance 0: stop when no label changes, so that starts which reach the same
    # partition have the same inertia.
    found = KMeans(
        groups, n_init=10, max_iter=300, tol=0.0, random_state=seed, algorithm="lloyd"
    ).fit(rows)
    if start is not None:
        warm = KMeans(
            groups,
            init=start,
            n_init=1,
            max_iter=300,
            tol=0.0,
            random_state=seed,
            algorithm="lloyd",
        ).fit(rows)
        if warm.inertia_ <= found.inertia_ * (1 + TIE) + TIE * SAME:
            found = warm
    return np.asarray(found.labels_, dtype=np.int64)


def match_groups(
    labels: Mapping[int, int], previous: Mapping[int, int], *, next_id: int
) -> tuple[int, ...]:
    """Return a lasting id for each group, in the order of its label.

    ``labels`` maps clients to 0 .. G - 1, ``previous`` maps clients to the ids of the
    refresh before. Ids pass on so that most clients seen both times keep theirs; a
    group that shares no client with the one it would follow gets a new id, counted
    from ``next_id``. Ids are names for logs and for the next warm start.
    """
    from scipy.optimize import linear_sum_assignment

    groups = max(labels.values()) + 1
    ids = sorted(set(previous.values()))
    overlap = np.zeros((groups, len(ids)), dtype=np.int64)
    for client in sorted(labels.keys() & previous.keys()):
        overlap[labels[client], ids.index(previous[client])] += 1
    kept: dict[int, int] = {
        int(group): ids[column]
        for group, column in zip(
            *linear_sum_assignment(overlap, maximize=True), strict=True
        )
        if overlap[group, column] > 0
    }
    fresh = [group for group in range(groups) if group not in kept]
    kept |= {group: next_id + offset for offset, group in enumerate(fresh)}
    return tuple(kept[group] for group in range(groups))


def memberships(descriptors: Array, centroids: Array, *, temperature: float) -> Array:
    """Return the n x G soft-max of ``h . mu / temperature``; rows sum to 1."""
    return soft_max(_scores(descriptors, centroids), temperature=temperature)


def soft_max(scores: Array, *, temperature: float) -> Array:
    """Return the soft-max of each row of ``scores / temperature``."""
    if not temperature > 0:
        raise ValueError(f"the temperature must be positive; got {temperature}")
    # Shifting before dividing: a tiny temperature then overflows to weight 0 only.
    with np.errstate(over="ignore"):
        shifted = (scores - scores.max(axis=1, keepdims=True)) / temperature
    weights = np.exp(shifted)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def hard_memberships(descriptors: Array, centroids: Array) -> Array:
    """Return n x G rows with a single 1, at the nearest centroid (first of equals)."""
    nearest = np.argmax(_scores(descriptors, centroids), axis=1)
    return np.asarray(np.eye(len(centroids))[nearest])


def _scores(descriptors: Array, centroids: Array) -> Array:
    # einsum rather than BLAS: a row's bits do not depend on where it stands.
    return np.asarray(np.einsum("nm,gm->ng", descriptors, centroids))


def _direction(rows: Array) -> Array:
    mean = rows.mean(axis=0)
    norm = float(np.linalg.norm(mean))
    return np.zeros_like(mean) if norm < NORM_FLOOR else mean / norm


def _in_span(rows: Array) -> Array:
    """Return rows of at most n numbers that are as far apart as the n ``rows``."""
    if rows.shape[1] <= len(rows):
        return rows
    triangle = np.asarray(np.linalg.qr(rows.T, mode="r"), dtype=np.float64)
    return np.ascontiguousarray(triangle.T)


def _spread(rows: Array, centres: Array, count: int) -> Array:
    """Add the row farthest from all centres until there are ``count`` distinct ones."""
    nearest = np.min([((rows - c) ** 2).sum(axis=1) for c in centres], axis=0)
    while len(centres) < count and nearest.max() > SAME**2:
        farthest = rows[np.argmax(nearest)]
        centres = np.vstack([centres, farthest])
        nearest = np.minimum(nearest, ((rows - farthest) ** 2).sum(axis=1))
    return centres


def means_under(rows: Array, labels: Sequence[int | None], count: int) -> Array | None:
    """Return the mean of each labelled group; groups without a row are re-seeded."""
    known = np.array([-1 if label is None else label for label in labels])
    present = sorted({label for label in labels if label is not None})
    if not present:
        return None
    means = np.stack([rows[known == group].mean(axis=0) for group in present])
    centres = _spread(rows, means, count)
    return centres if len(centres) == count else None
