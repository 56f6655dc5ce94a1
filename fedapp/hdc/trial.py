"""Trying numbers of groups on many rows, each judged by the silhouette of a sample."""

from collections.abc import Sequence

import numpy as np

from fedapp.hdc.grouping import SAME, TIE, Labels, k_means, means_under
from fedapp.hdc.heads import Array

STEPS = 20
"""Of k-means over all rows, at most."""


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


def distances_of(similarity: Array) -> Array:
    """Return the distances of unit vectors, from their inner products."""
    apart = np.sqrt(np.maximum(2 - 2 * similarity, 0))
    np.fill_diagonal(apart, 0)
    return np.asarray(apart)


def try_counts(
    rows: Array,
    sample: Labels,
    apart: Array,
    before: Sequence[int | None],
    *,
    max_groups: int,
    seed: int,
) -> tuple[Labels, dict[int, float]]:
    """Return the labels whose silhouette is largest, and the silhouette of each count.

    ``apart`` (s x s) has the distances of the clients of ``sample``, ``before`` the
    group of every row at the refresh before. Ties go to the smaller count; without any
    silhouette all labels are 0.
    """
    best = np.zeros(len(rows), dtype=np.int64)
    silhouettes: dict[int, float] = {}
    top, earlier = -np.inf, len(set(before) - {None})
    distinct = _distinct(apart, min(max_groups, len(rows) - 1))
    for count in range(2, distinct + 1):
        start = means_under(rows, before, count) if count == earlier else None
        labels = mini_batch(rows, sample, count, seed=seed, start=start)
        value = silhouette_of(apart, labels[sample], count)
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


def silhouette_of(apart: Array, labels: Labels, groups: int) -> float | None:
    """Return the mean silhouette of the sample, None if it does not see all groups."""
    from sklearn.metrics import silhouette_score

    if not 2 <= groups < len(labels) or len(np.unique(labels)) < groups:
        return None
    return float(silhouette_score(apart, labels, metric="precomputed"))
