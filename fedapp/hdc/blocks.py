"""Unit descriptors of many clients, some at a time (specification 23.3 d, 23.6)."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedapp.hdc.grouping import Labels
from fedapp.hdc.head_store import Heads
from fedapp.hdc.heads import NORM_FLOOR, Array, descriptor

LENGTH = 128
"""Numbers of a projected descriptor."""


@dataclass(frozen=True)
class Descriptors:
    """The unit descriptors of all heads in ``directions``, computed on the way."""

    heads: Heads
    directions: Array

    @property
    def clients(self) -> Sequence[int]:
        """All clients with a head, ascending."""
        return self.heads.clients

    @property
    def length(self) -> int:
        """Numbers of one descriptor."""
        return self.directions.shape[1] * self.heads.shape[1]

    def each(self) -> Iterator[Array | None]:
        """Yield the descriptor of every client, as ``descriptor`` gives it."""
        for head in self.heads.each():
            yield descriptor(head, self.directions)

    def blocks(self) -> Iterator[tuple[Labels, Array]]:
        """Yield positions among ``clients``, and the descriptors there as rows.

        They are those of ``each`` up to rounding, formed some at a time. A client
        without a descriptor has no row.
        """
        start = 0
        for heads in self.heads.blocks():
            found = np.matmul(self.directions.T, heads.astype(np.float64))
            rows = found.reshape(len(heads), -1)
            norms = np.sqrt(np.einsum("nm,nm->n", rows, rows))
            whole = np.flatnonzero(norms >= NORM_FLOOR)
            yield start + whole, rows[whole] / norms[whole, None]
            start += len(heads)


def projection(length: int, *, seed: int) -> Array:
    """Return a ``length`` x 128 matrix that keeps inner products on average."""
    rng = np.random.default_rng([seed, zlib.crc32(b"projection")])
    return rng.standard_normal((length, LENGTH)) / np.sqrt(LENGTH)
