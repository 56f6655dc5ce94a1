"""How much of the latent groups a statistic tells: nearest neighbours, and a map."""

from collections.abc import Sequence

import numpy as np

from fedapp.statistics.rows import Floats


def recovered(rows: Floats, groups: Sequence[int]) -> float:
    """Return the share of rows whose nearest other row is of the same group.

    Leave-one-out accuracy of one nearest neighbour; of equally near ones the first.
    """
    if len(rows) < 2:
        raise ValueError("need the statistics of at least two clients")
    labels = np.asarray(groups)
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=-1)
    np.fill_diagonal(apart, np.inf)
    return float(np.mean(labels[apart.argmin(axis=1)] == labels))


def by_chance(groups: Sequence[int]) -> float:
    """Return the share of pairs of clients that are of one group."""
    labels = np.asarray(groups)
    same = labels[:, None] == labels
    count = len(labels)
    return float((same.sum() - count) / (count * (count - 1)))


def on_a_plane(rows: Floats) -> tuple[Floats, float]:
    """Return rows on their two principal axes (n, 2), and the share of variance kept.

    The largest entry of each axis is positive, so that the map is always the same.
    """
    centred = rows - rows.mean(axis=0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    axes = np.vstack([axes[:2], np.zeros((max(0, 2 - len(axes)), rows.shape[1]))])
    tops = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    axes = axes * np.where(tops < 0, -1.0, 1.0)
    total = float((sizes**2).sum())
    kept = float((sizes[:2] ** 2).sum()) / total if total > 0 else 1.0
    return centred @ axes.T, kept
