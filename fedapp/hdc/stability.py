"""When groups are stable enough to be used (specification 23.4, contracts page).

Two refreshes are compared through inner products of descriptors, which do not depend
on the basis of either, and through their labels up to renaming.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from fedapp.hdc.grouping import Labels
from fedapp.hdc.heads import Array, Floats

MIN_COMMON = 4
"""Fewest clients in both refreshes for a comparison to mean anything."""


@dataclass(frozen=True)
class Snapshot:
    """What one refresh leaves for the next: clients ascending, their labels (n,), and
    the inner products (s x s) of the descriptors of those that are ``sampled``: all,
    unless they are very many."""

    clients: Labels
    labels: Labels
    sampled: Labels
    similarity: Array

    @property
    def complete(self) -> bool:
        """Whether all clients are sampled."""
        return len(self.sampled) == len(self.clients)


@dataclass(frozen=True)
class Thresholds:
    """What a stable refresh must reach, how many of them in a row (the m of 23.4)
    activate, and whether activation is for good (``latch``)."""

    min_silhouette: float
    min_ari: float
    max_change: float
    min_head_change: float
    stable_refreshes: int
    latch: bool


@dataclass(frozen=True)
class Gate:
    """Stable refreshes in a row, failed ones in a row, and whether groups are used."""

    counter: int = 0
    failures: int = 0
    active: bool = False


def snapshot(clients: Sequence[int], labels: Labels, descriptors: Array) -> Snapshot:
    """Return what the next refresh compares with, whatever the order of the rows."""
    order = np.argsort(np.asarray(clients))
    rows = descriptors[order]
    with threadpool_limits(limits=1):
        similarity = rows @ rows.T
    ids = np.asarray(clients, dtype=np.int64)[order]
    return Snapshot(ids, np.asarray(labels, dtype=np.int64)[order], ids, similarity)


def compare(now: Snapshot, before: Snapshot) -> tuple[float, float] | None:
    """Return (adjusted Rand index, change of similarity) on the common clients.

    The change is ``||S - S_before|| / ||S_before||`` in the Frobenius norm, over the
    clients sampled both times. None if fewer than four clients are common.
    """
    here, there = _common(now.clients, before.clients)
    if len(here) < MIN_COMMON:
        return None
    ari = agreement(before.labels[there].tolist(), now.labels[here].tolist())
    here, there = _common(now.sampled, before.sampled)
    if len(here) < MIN_COMMON:
        return None
    old = before.similarity[np.ix_(there, there)]
    new = now.similarity[np.ix_(here, here)]
    return ari, float(np.linalg.norm(new - old) / np.linalg.norm(old))


def _common(now: Labels, before: Labels) -> tuple[Labels, Labels]:
    """Return the positions in both of what is in both."""
    _, here, there = np.intersect1d(now, before, return_indices=True)
    return here, there


def agreement(first: Sequence[int], second: Sequence[int]) -> float:
    """Return the adjusted Rand index of two labellings of the same clients."""
    # Imported here: it takes seconds, and every worker imports this file.
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(first, second))


def head_change(heads: Iterable[Floats], initial: Floats) -> float:
    """Return the median over ``heads`` of ``||W - W_0|| / ||W_0||``.

    One head is in memory at a time. From a zero start any move counts as infinite.
    """
    return relative_change([move(head, initial) for head in heads], initial)


def move(head: Floats, initial: Floats) -> float:
    """Return ``||W - W_0||``."""
    start = np.asarray(initial, dtype=np.float64)
    return float(np.sqrt(np.sum((head - start) ** 2)))


def relative_change(moves: Sequence[float], initial: Floats) -> float:
    """Return the median of ``moves`` over ``||W_0||``, as ``head_change`` does."""
    start = np.asarray(initial, dtype=np.float64)
    scale = float(np.sqrt(np.sum(start**2)))
    if not moves:
        raise ValueError("need at least one head; got none")
    if scale > 0:
        return float(np.median(moves)) / scale
    return float("inf") if np.median(moves) > 0 else 0.0


def is_stable(
    *,
    silhouette: float | None,
    ari: float | None,
    change: float | None,
    groups: int,
    head_change: float,
    thresholds: Thresholds,
) -> bool:
    """Return whether one refresh meets every threshold.

    ``ari`` and ``change`` are None where there is nothing to compare with (the first
    refresh, or fewer than four common clients): never stable. One group has no
    silhouette and is not asked for one.
    """
    if ari is None or change is None:
        return False
    separated = groups == 1 or (
        silhouette is not None and silhouette >= thresholds.min_silhouette
    )
    return (
        separated
        and ari >= thresholds.min_ari
        and change <= thresholds.max_change
        and head_change >= thresholds.min_head_change
    )


def advance(
    gate: Gate,
    *,
    silhouette: float | None,
    ari: float | None,
    change: float | None,
    groups: int,
    head_change: float,
    thresholds: Thresholds,
) -> Gate:
    """Return the gate after one refresh; see ``is_stable`` for the arguments.

    m stable refreshes in a row activate. Without ``latch``, m failed ones in a row
    deactivate again.
    """
    if is_stable(
        silhouette=silhouette,
        ari=ari,
        change=change,
        groups=groups,
        head_change=head_change,
        thresholds=thresholds,
    ):
        counter = gate.counter + 1
        return Gate(counter, 0, gate.active or counter >= thresholds.stable_refreshes)
    failures = gate.failures + 1
    lasts = thresholds.latch or failures < thresholds.stable_refreshes
    return Gate(0, failures, gate.active and lasts)
