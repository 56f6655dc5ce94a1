"""What one head can do to the directions of all: no more than an ordinary one.

Descriptors are unit vectors, so how large a head is tells in the Gram matrix alone.
There a head counts as if its norm were at most ``LIMIT`` times the median: below that,
nothing changes, to the bit.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from fedapp.hdc.heads import Floats

LIMIT = 5.0
"""Norms of heads up to this many medians are left alone; docs/methods.md has why."""


def norm(head: Floats) -> float:
    """Return the Frobenius norm of a head."""
    return float(np.sqrt(np.sum(np.asarray(head, dtype=np.float64) ** 2)))


def factors(norms: Iterable[float]) -> list[float]:
    """Return what each head is to be multiplied by, 1 for all ordinary ones.

    The median is over heads that are not zero: were it 0, every head would be large.
    """
    sizes = list(norms)
    positive = [size for size in sizes if size > 0]
    most = LIMIT * float(np.median(positive)) if positive else 0.0
    return [most / size if size > most else 1.0 for size in sizes]


def scaled(heads: Iterable[Floats], by: Sequence[float]) -> Iterator[Floats]:
    """Yield each head times its factor; a factor of 1 leaves it as it is."""
    for head, factor in zip(heads, by, strict=True):
        yield head if factor == 1 else np.asarray(head, dtype=np.float64) * factor
