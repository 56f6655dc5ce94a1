"""The last steps of k-means, over descriptors that come some at a time."""

import numpy as np

from fedapp.hdc.blocks import Descriptors
from fedapp.hdc.grouping import Labels
from fedapp.hdc.heads import Array

PASSES = 3
"""At most; on planted groups of all kinds the second changed next to nothing."""


def sums_under(descriptors: Descriptors, labels: Labels) -> tuple[Labels, Array]:
    """Return the labels as they are, and the sum of each group's descriptors."""
    sums = np.zeros((int(labels.max()) + 1, descriptors.length))
    start = 0
    for _, rows in descriptors.blocks():
        here = labels[start : start + len(rows)]
        sums += _members(here, len(sums)).T @ rows
        start += len(rows)
    return labels, sums


def settle(descriptors: Descriptors, labels: Labels) -> tuple[Labels, Array]:
    """Return labels after a few steps of Lloyd's from ``labels``, and groups' sums.

    A group may lose all its clients: its sum is then zero.
    """
    labels, sums = sums_under(descriptors, labels)
    for _ in range(PASSES):
        before, labels, sums = labels, *_step(descriptors, labels, sums)
        if np.array_equal(labels, before):
            break
    return labels, sums


def _step(
    descriptors: Descriptors, labels: Labels, sums: Array
) -> tuple[Labels, Array]:
    """Assign every client to the nearest mean, and sum up anew."""
    counts = np.bincount(labels, minlength=len(sums))
    means = sums / np.maximum(counts, 1)[:, None]
    # An empty group has no mean that could be near.
    lengths = np.where(counts > 0, np.einsum("gm,gm->g", means, means), np.inf)
    found, after = [], np.zeros_like(sums)
    for _, rows in descriptors.blocks():
        nearest = np.argmin(lengths - 2 * (rows @ means.T), axis=1)
        after += _members(nearest, len(sums)).T @ rows
        found.append(nearest)
    return np.concatenate(found).astype(np.int64), after


def _members(labels: Labels, groups: int) -> Array:
    return np.asarray(np.eye(groups)[labels])
