"""The last steps of k-means, over descriptors that come some at a time."""

import numpy as np

from fedapp.hdc.blocks import Descriptors
from fedapp.hdc.grouping import Labels
from fedapp.hdc.heads import Array

PASSES = 3
"""At most; on planted groups of all kinds the second changed next to nothing."""

SETTLED = 1e-3
"""Share of clients that may change groups in a pass that is the last."""


def sums_of(rows: Array, labels: Labels, groups: int) -> Array:
    """Return the sum of the rows of each group."""
    return np.asarray(np.eye(groups)[labels].T @ rows)


def settle(
    descriptors: Descriptors, labels: Labels, means: Array
) -> tuple[Labels, Array]:
    """Return the labels after a few steps of Lloyd's, and the sum of each group.

    ``labels`` and ``means`` (G x length) are where k-means is so far. A group may lose
    all its clients: its sum is then zero.
    """
    for _ in range(PASSES):
        before = labels
        labels, sums = _step(descriptors, means)
        if np.mean(labels != before) <= SETTLED:
            break
        means = means_of(labels, sums)
    return labels, sums


def means_of(labels: Labels, sums: Array) -> Array:
    """Return the mean of each group from its sum, infinite for one without a client."""
    counts = np.bincount(labels, minlength=len(sums))[:, None]
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)


def _step(descriptors: Descriptors, means: Array) -> tuple[Labels, Array]:
    """Return the label of the mean nearest to each client, and the sums under them."""
    # An infinite mean is near to nobody.
    there = np.asarray(np.isfinite(means).all(axis=1))
    centres = np.where(there[:, None], means, 0.0)
    lengths = np.where(there, np.einsum("gm,gm->g", centres, centres), np.inf)
    found, sums = [], np.zeros_like(centres)
    for _, rows in descriptors.blocks():
        nearest = np.argmin(lengths - 2 * (rows @ centres.T), axis=1)
        sums += sums_of(rows, nearest, len(sums))
        found.append(nearest)
    return np.concatenate(found).astype(np.int64), sums
