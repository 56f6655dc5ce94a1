"""How alike the heads of clients are, from the bank of a run folder or its state."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fedapp.files import TensorFile
from fedapp.hdc.clipping import factors, norm, scaled
from fedapp.hdc.heads import Array, descriptor, gram, principal_directions
from fedapp.hdc.refresh_state import SNAPSHOT, snapshot_of
from fedapp.versions import Versions


@dataclass(frozen=True)
class Similarity:
    """Inner products (n x n), the client of each row, and of what they are."""

    clients: tuple[int, ...]
    values: Array
    of: str = "head descriptors after the last round"


def head_similarity(
    bank: Path, *, rounds: int, energy: float, rank: int
) -> Similarity | None:
    """Return the similarity of the heads in ``bank`` after ``rounds`` whole rounds.

    None if fewer than two clients have one. ``energy`` and ``rank`` as in
    ``principal_directions``.

    Raises
    ------
    ValueError
        If a file of the bank is broken, or heads differ in shape.
    """
    heads = _heads(bank, rounds=rounds)
    if len(heads) < 2:
        return None
    by = factors(norm(head) for head in heads.values())
    total = gram(scaled(heads.values(), by))
    subspace = principal_directions(total, energy=energy, rank=rank)
    found = {c: descriptor(head, subspace.directions) for c, head in heads.items()}
    rows = {client: row for client, row in found.items() if row is not None}
    if len(rows) < 2:
        return None
    stacked = np.stack(list(rows.values()))
    with threadpool_limits(limits=1):
        return Similarity(tuple(rows), stacked @ stacked.T)


def refresh_similarity(state: Path, *, of: str) -> Similarity | None:
    """Return what the last refresh compared, None if there was none.

    The clients are those of its sample, if it had one. ``of`` is as in ``Similarity``.

    Raises
    ------
    OSError, ValueError
        If the file ``state`` is missing or broken.
    """
    part = TensorFile(state).part(SNAPSHOT)
    found = snapshot_of({SNAPSHOT: part}) if part else None
    if found is None:
        return None
    return Similarity(tuple(found.sampled.tolist()), found.similarity, of)


def _heads(bank: Path, *, rounds: int) -> dict[int, NDArray[np.float32]]:
    """Return the newest committed head of each client, ascending."""
    versions, heads = Versions(bank), {}
    for owner in versions.owners():
        file = versions.latest(owner, before=(rounds + 1, 0))
        head = file.part("head") if file is not None else {}
        if "weight" in head:
            heads[int(owner)] = head["weight"].float().numpy()
    return heads
