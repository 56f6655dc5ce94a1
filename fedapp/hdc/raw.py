"""What raw heads would have given: the comparison for the projection (23.7).

Grouping on raw heads is that on descriptors of full rank: inner products of heads as
unit vectors. It is run beside every refresh for the log and for later study, and
nothing in a run depends on it.
"""

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from fedapp.hdc.grouping import choose_groups
from fedapp.hdc.head_store import Heads
from fedapp.hdc.heads import NORM_FLOOR, Array, Floats
from fedapp.hdc.stability import Snapshot, compare

MOST_CLIENTS = 500
"""Clients above which raw heads are not grouped: it takes their square in memory."""


@dataclass(frozen=True)
class RawRefresh:
    """Groups of raw heads: their snapshot, number and silhouette, and the adjusted
    Rand index to the refresh before (None if there is nothing to compare)."""

    snapshot: Snapshot
    groups: int
    silhouette: float | None
    ari: float | None


def raw_refresh(
    heads: Heads,
    *,
    before: Snapshot | None,
    max_groups: int,
    min_silhouette: float,
    seed: int,
) -> RawRefresh | None:
    """Group clients by their raw heads; None if all are zero, or clients too many.

    ``before`` is the snapshot of the refresh before. Other arguments are as in
    ``choose_groups``, which is what groups by descriptors as well.
    """
    if len(heads) > MOST_CLIENTS:
        return None
    units = zip(heads.clients, map(_unit, heads.each()), strict=True)
    rows = {client: row for client, row in units if row is not None}
    if not rows:
        return None
    known, stacked = list(rows), np.stack(list(rows.values()))
    with threadpool_limits(limits=1):
        similarity = stacked @ stacked.T
    found = choose_groups(
        known,
        _fewer_numbers(stacked, similarity),
        max_groups=max_groups,
        min_silhouette=min_silhouette,
        seed=seed,
        previous={}
        if before is None
        else dict(zip(before.clients.tolist(), before.labels.tolist(), strict=True)),
    )
    ids = np.array(known, dtype=np.int64)
    now = Snapshot(ids, found.labels, ids, similarity)
    same = compare(now, before) if before is not None else None
    return RawRefresh(
        snapshot=now,
        groups=len(found.centroids),
        silhouette=found.silhouette,
        ari=None if same is None else same[0],
    )


def _unit(head: Floats) -> Array | None:
    row = np.asarray(head, dtype=np.float64).ravel()
    norm = float(np.sqrt(np.sum(row**2)))
    return None if norm < NORM_FLOOR else row / norm


def _fewer_numbers(heads: Array, similarity: Array) -> Array:
    """Return n coordinates per client with the same inner products, if that is fewer.

    k-means and silhouettes then do not pay for the size of a head.
    """
    if len(heads) >= heads.shape[1]:
        return heads
    with threadpool_limits(limits=1):
        values, vectors = np.linalg.eigh(similarity)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
