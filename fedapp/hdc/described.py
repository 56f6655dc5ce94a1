"""What a refresh sees of the heads: from the heads themselves, or from sketches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedapp.hdc.blocks import Descriptors
from fedapp.hdc.clipping import factors, norm, scaled
from fedapp.hdc.head_store import Heads
from fedapp.hdc.heads import Floats, Subspace, gram, principal_directions
from fedapp.hdc.stability import head_change, relative_change


@dataclass(frozen=True)
class Described:
    """The common directions, the descriptors of the clients that are there, and the
    median relative move of the heads."""

    subspace: Subspace
    descriptors: Descriptors
    head_change: float


def from_heads(
    heads: Heads, initial_head: Floats, *, energy: float, rank: int
) -> Described:
    """Return what ``heads`` show; large ones count less in the directions."""
    by = factors(norm(head) for head in heads.each())
    total = gram(scaled(heads.each(), by))
    subspace = principal_directions(total, energy=energy, rank=rank)
    return Described(
        subspace,
        Descriptors(heads, subspace.directions),
        head_change(heads.each(), initial_head),
    )


def from_sketches(
    sketches: Mapping[int, Floats],
    subspace: Subspace,
    moves: Sequence[float],
    initial_head: Floats,
) -> Described:
    """Return what sketches in the directions of ``subspace`` show.

    A sketch is a descriptor but for its norm, like a head of one class.
    """

    def read(clients: Sequence[int]) -> Iterator[tuple[int, Floats]]:
        for client in clients:
            yield client, sketches[client][None]

    return Described(
        subspace,
        Descriptors(Heads(read, list(sketches)), np.ones((1, 1))),
        relative_change(moves, initial_head),
    )
