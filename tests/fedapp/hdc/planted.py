"""Heads with planted groups, for tests of many clients."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from fedapp.hdc.blocks import Descriptors
from fedapp.hdc.head_store import Heads
from fedapp.hdc.heads import gram, principal_directions

Numbers = NDArray[np.floating]


def planted(
    clients: int,
    *,
    groups: int = 4,
    shape: tuple[int, int] = (5, 8),
    noise: float = 0.5,
    seed: int = 0,
) -> tuple[Numbers, NDArray[np.int64]]:
    """Return heads (n x C x d) and the group of each, dealt at random."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(clients) % groups)
    centres = rng.standard_normal((groups, *shape))
    return centres[labels] + noise * rng.standard_normal((clients, *shape)), labels


def store(heads: Numbers, clients: Sequence[int] | None = None) -> Heads:
    """Return the heads of clients 0, 1, ..., or of ``clients``, as a refresh has them.

    They are read in the order of ``clients``.
    """
    names = list(range(len(heads))) if clients is None else list(clients)
    head_of = dict(zip(names, heads, strict=True))
    return Heads(lambda wanted: ((c, head_of[c]) for c in wanted), names)


def describe(heads: Heads) -> Descriptors:
    """Return descriptors in the usual directions."""
    subspace = principal_directions(gram(heads.each()), energy=0.8, rank=0)
    return Descriptors(heads, subspace.directions)


def match(labels: NDArray[np.int64], planted: NDArray[np.int64]) -> float:
    """Return the adjusted Rand index."""
    return float(adjusted_rand_score(planted, labels))
