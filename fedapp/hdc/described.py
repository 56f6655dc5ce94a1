"""What a refresh sees of the heads: from the heads themselves, or from sketches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedapp.hdc.clipping import factors, norm, scaled
from fedapp.hdc.heads import (
    Array,
    Floats,
    Subspace,
    descriptor,
    gram,
    principal_directions,
)
from fedapp.hdc.stability import head_change


@dataclass(frozen=True)
class Described:
    """The common directions, a unit vector for each client (None: it has none, as
    those that are not there), and the median relative move of the heads."""

    subspace: Subspace
    descriptors: Mapping[int, Array | None]
    head_change: float


def from_heads(
    clients: Sequence[int],
    head_of: Callable[[int], Floats],
    initial_head: Floats,
    *,
    energy: float,
    rank: int,
) -> Described:
    """Return the descriptors of ``clients``; heads are read one at a time."""
    by = factors(norm(head_of(client)) for client in clients)
    subspace = principal_directions(
        gram(scaled((head_of(client) for client in clients), by)),
        energy=energy,
        rank=rank,
    )
    return Described(
        subspace,
        {c: descriptor(head_of(c), subspace.directions) for c in clients},
        head_change((head_of(client) for client in clients), initial_head),
    )
