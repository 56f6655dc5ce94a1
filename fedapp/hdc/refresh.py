"""One refresh of HDC-FL: from descriptors to groups and memberships (23.3, 23.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedapp.hdc.described import Described
from fedapp.hdc.grouping import Labels, choose_groups, match_groups, memberships
from fedapp.hdc.heads import Array, Subspace
from fedapp.hdc.stability import (
    Gate,
    Snapshot,
    Thresholds,
    advance,
    compare,
    snapshot,
)

MIN_CLIENTS = 4
"""Fewest clients with a head for a refresh to take place."""


class NothingToGroup(ValueError):
    """No client has a descriptor."""


@dataclass(frozen=True)
class Groups:
    """What a refresh leaves: n clients ascending, their labels (n,) with -1 for a
    client without a descriptor, memberships (n x G), and the lasting id of each group.
    """

    clients: Sequence[int]
    labels: Labels
    weights: Array
    ids: Sequence[int]

    def lasting(self) -> dict[int, int]:
        """Return the lasting id of each grouped client's group."""
        return {
            client: self.ids[label]
            for client, label in zip(self.clients, self.labels, strict=True)
            if label >= 0
        }


@dataclass(frozen=True)
class Refresh:
    """The groups, the state of the gate, and what led to them.

    ``ari`` and ``change`` compare with the refresh before; None if there is nothing to
    compare. ``silhouettes`` has every group count tried, ``centroids`` (G x rd) a row
    for each group.
    """

    groups: Groups
    next_id: int
    gate: Gate
    snapshot: Snapshot
    subspace: Subspace
    silhouette: float | None
    silhouettes: Mapping[int, float]
    ari: float | None
    change: float | None
    head_change: float
    centroids: Array


def refresh(
    clients: Sequence[int],
    seen: Described,
    *,
    before: Snapshot | None,
    previous: Mapping[int, int],
    next_id: int,
    gate: Gate,
    max_groups: int,
    temperature: float,
    thresholds: Thresholds,
    seed: int,
) -> Refresh:
    """Group ``clients`` (ascending) by what was seen of their heads.

    ``previous`` has the lasting group of each client at the refresh ``before``;
    ``next_id`` is the next lasting id that was never used. Other arguments are as in
    ``choose_groups``, ``memberships`` and ``advance``.

    Raises
    ------
    NothingToGroup
        If no client has a descriptor.
    """
    found = ((client, seen.descriptors.get(client)) for client in clients)
    rows = {client: row for client, row in found if row is not None}
    grouped = list(rows)
    if not rows:
        raise NothingToGroup("no client has a head with a direction")
    stacked = np.stack(list(rows.values()))
    grouping = choose_groups(
        grouped,
        stacked,
        max_groups=max_groups,
        min_silhouette=thresholds.min_silhouette,
        seed=seed,
        previous=previous,
    )
    now = snapshot(grouped, grouping.labels, stacked)
    same = compare(now, before) if before is not None else None
    label_of = dict(zip(grouped, grouping.labels.tolist(), strict=True))
    soft = memberships(stacked, grouping.centroids, temperature=temperature)
    weights = np.zeros((len(clients), len(grouping.centroids)))
    weights[[clients.index(client) for client in grouped]] = soft
    ari, change = same if same is not None else (None, None)
    ids = match_groups(label_of, previous, next_id=next_id)
    return Refresh(
        groups=Groups(
            clients=list(clients),
            labels=np.array([label_of.get(c, -1) for c in clients], dtype=np.int64),
            weights=weights,
            ids=ids,
        ),
        next_id=max(next_id, max(ids) + 1),
        gate=advance(
            gate,
            silhouette=grouping.silhouette,
            ari=ari,
            change=change,
            groups=len(grouping.centroids),
            head_change=seen.head_change,
            thresholds=thresholds,
        ),
        snapshot=now,
        subspace=seen.subspace,
        silhouette=grouping.silhouette,
        silhouettes=grouping.silhouettes,
        ari=ari,
        change=change,
        head_change=seen.head_change,
        centroids=grouping.centroids,
    )
