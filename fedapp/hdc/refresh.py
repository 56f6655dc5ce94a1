"""One refresh of HDC-FL: from descriptors to groups and memberships (23.3, 23.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedapp.hdc.described import Described
from fedapp.hdc.finding import Method, find_groups, in_words
from fedapp.hdc.grouping import Labels, match_groups
from fedapp.hdc.heads import Array, Subspace
from fedapp.hdc.stability import (
    Gate,
    Snapshot,
    Thresholds,
    advance,
    compare,
)

MIN_CLIENTS = 4
"""Fewest clients with a head for a refresh to take place."""


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
    compare. ``silhouettes`` has every group count tried, ``centroids`` (G x length) a
    row for each group. ``snapshot.sampled`` has the clients that were compared with
    each other.
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
    method: Method

    def listed(self) -> frozenset[int]:
        """Return the clients whose memberships are written down, at most 1,000."""
        exact = self.method == "exact"
        return frozenset(self.groups.clients if exact else self.snapshot.sampled)

    def in_words(self) -> str:
        """Return how many groups of how many clients were found, and how."""
        found = f"{len(self.groups.ids)} groups of {len(self.groups.clients)} clients"
        return f"{found}, {in_words(self.method, len(self.snapshot.sampled))}"


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
    found = find_groups(
        seen.descriptors,
        max_groups=max_groups,
        min_silhouette=thresholds.min_silhouette,
        temperature=temperature,
        seed=seed,
        previous=previous,
    )
    grouping, now = found.grouping, found.snapshot
    same = compare(now, before) if before is not None else None
    label_of = dict(zip(found.clients, grouping.labels.tolist(), strict=True))
    place = {client: index for index, client in enumerate(clients)}
    weights = np.zeros((len(clients), len(grouping.centroids)))
    weights[[place[client] for client in found.clients]] = found.soft
    ari, change = same if same is not None else (None, None)
    ids = match_groups(label_of, previous, next_id=next_id)
    labels = [label_of.get(client, -1) for client in clients]
    return Refresh(
        groups=Groups(
            clients=list(clients),
            labels=np.array(labels, dtype=np.int64),
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
        method=found.method,
    )
