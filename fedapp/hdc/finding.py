"""Finding groups: exactly where that is affordable, else by a sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedapp.hdc.blocks import LENGTH, Descriptors
from fedapp.hdc.grouping import (
    Grouping,
    NothingToGroup,
    choose_groups,
    memberships,
)
from fedapp.hdc.heads import Array
from fedapp.hdc.many import EXACT, group_many
from fedapp.hdc.stability import Snapshot, snapshot

Method = Literal["exact", "sampled", "projected"]


@dataclass(frozen=True)
class Found:
    """Groups of the ``clients`` that have a descriptor, ascending, and how they were
    found. ``soft`` holds memberships (n x G)."""

    clients: Sequence[int]
    grouping: Grouping
    soft: Array
    snapshot: Snapshot
    method: Method


def find_groups(
    descriptors: Descriptors,
    *,
    max_groups: int,
    min_silhouette: float,
    temperature: float,
    seed: int,
    previous: Mapping[int, int],
) -> Found:
    """Return the groups of ``choose_groups``, or of ``group_many`` for many clients.

    Raises
    ------
    NothingToGroup
        If no client has a descriptor.
    """
    if len(descriptors.clients) <= EXACT:
        return _exactly(
            descriptors,
            max_groups=max_groups,
            min_silhouette=min_silhouette,
            temperature=temperature,
            seed=seed,
            previous=previous,
        )
    found = group_many(
        descriptors,
        max_groups=max_groups,
        min_silhouette=min_silhouette,
        temperature=temperature,
        seed=seed,
        previous=previous,
    )
    ids = np.asarray(descriptors.clients, dtype=np.int64)
    grouped, sampled = ids[found.positions], ids[found.sample]
    return Found(
        grouped.tolist(),
        found.grouping,
        found.soft,
        Snapshot(grouped, found.grouping.labels, sampled, found.similarity),
        "projected" if found.projected else "sampled",
    )


def in_words(method: Method, sampled: int) -> str:
    """Return how groups were found, for the log."""
    if method == "exact":
        return "exact"
    how = f"{method}: silhouettes of {sampled} clients, k-means by mini-batches"
    if method == "projected":
        how += f" on random projections to {LENGTH} numbers"
    return how


def _exactly(
    descriptors: Descriptors,
    *,
    max_groups: int,
    min_silhouette: float,
    temperature: float,
    seed: int,
    previous: Mapping[int, int],
) -> Found:
    found = zip(descriptors.clients, descriptors.each(), strict=True)
    rows = {client: row for client, row in found if row is not None}
    grouped = list(rows)
    if not rows:
        raise NothingToGroup("no client has a head with a direction")
    stacked = np.stack(list(rows.values()))
    grouping = choose_groups(
        grouped,
        stacked,
        max_groups=max_groups,
        min_silhouette=min_silhouette,
        seed=seed,
        previous=previous,
    )
    return Found(
        grouped,
        grouping,
        memberships(stacked, grouping.centroids, temperature=temperature),
        snapshot(grouped, grouping.labels, stacked),
        "exact",
    )
