"""Earth mover's distances between sets of embeddings, and keys from them (EMD-CFL).

Zhang, Williams and Toni 2025, arXiv 2506.07769.
"""

from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedapp.algorithm import seeded

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

TINY = 1e-12
"""Added to norms: an embedding may be zero."""


def projected_width(width: int, ratio: float) -> int:
    """Return ceil(ratio d), at least 1."""
    # The small number: 0.07 * 100 is 7.000000000000001 and would give 8.
    return max(1, ceil(ratio * width - 1e-9))


def projection(width: int, ratio: float, *, seed: int) -> Tensor:
    """Return R, a Gaussian matrix (d, ceil(ratio d)), the same for all of a run."""
    shape = width, projected_width(width, ratio)
    return torch.randn(shape, generator=seeded(seed, width)) / shape[1] ** 0.5


def cosine_distances(one: Array, other: Array) -> Array:
    """Return 1 - cos of every row of ``one`` with every row of ``other``."""
    one = one / (np.linalg.norm(one, axis=1, keepdims=True) + TINY)
    other = other / (np.linalg.norm(other, axis=1, keepdims=True) + TINY)
    return 1.0 - one @ other.T


def transport_cost(costs: Array) -> float:
    """Return the least mean cost of moving the rows' mass to the columns.

    All rows weigh the same, and all columns: exact optimal transport between two
    uniform distributions.
    """
    # Imported here: it takes seconds, and only the server needs it.
    from ot import emd2

    rows, columns = (np.full(size, 1.0 / size) for size in costs.shape)
    return float(emd2(rows, columns, costs, numItermax=10_000_000))


def embedding_distance(one: Array, other: Array) -> float:
    """Return W1 between two sets of embeddings (rows), with cosine ground distance."""
    return transport_cost(cosine_distances(one, other))


def neighbours(distances: Array, known: Flags, eps: float) -> Flags:
    """Return which pairs are closer than ``eps`` both ways; all are their own.

    A pair of which a distance is not ``known`` is not close.
    """
    close = known & (distances < eps)
    return (close & close.T) | np.eye(len(distances), dtype=np.bool_)


def distinct_keys(adjacency: Flags) -> tuple[Flags, NDArray[np.int64]]:
    """Return the different rows in order of first occurrence, and each client's.

    A client's key is the set of its neighbours. Equal neighbourhoods share a key;
    connected components need not.
    """
    found: dict[bytes, int] = {}
    index = [found.setdefault(row.tobytes(), len(found)) for row in adjacency]
    firsts = [index.index(key) for key in range(len(found))]
    return adjacency[firsts], np.array(index, dtype=np.int64)
