"""The heads of many clients: read once where they fit into memory, else anew.

A refresh goes over all heads several times. As float32 numbers, those of 20,000
clients with 10 classes and 512 features take 0.4 GB.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fedapp.hdc.heads import Floats

Read = Callable[[Sequence[int]], Iterator[tuple[int, Floats]]]
"""Yields (client, head) in the order given, leaving out clients without a head."""

KEPT_BYTES = 512 * 2**20
"""Of heads kept in memory."""

BLOCK = 256
"""Heads handled at a time."""


class Heads:
    """The heads of ``clients``, ascending, as ``read`` gives them.

    The first ones are kept, up to ``limit`` bytes.
    """

    def __init__(
        self, read: Read, clients: Sequence[int], *, limit: int = KEPT_BYTES
    ) -> None:
        self._read = read
        self._kept: NDArray[np.floating] = np.zeros((0, 0, 0))
        self.clients: list[int] = []
        known = sorted(clients)
        for client, head in read(known):
            index = len(self.clients)
            if index == 0:
                room = min(len(known), limit // max(1, head.nbytes))
                self._kept = np.empty((room, *head.shape), dtype=head.dtype)
            elif head.shape != self._kept.shape[1:]:
                raise ValueError(
                    f"heads must have one shape; got {self._kept.shape[1:]} and "
                    f"{head.shape}"
                )
            if index < len(self._kept):
                self._kept[index] = head
            self.clients.append(client)
        self._kept = self._kept[: len(self.clients)]

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def shape(self) -> tuple[int, ...]:
        """Classes and features of every head."""
        return self._kept.shape[1:]

    def each(self) -> Iterator[Floats]:
        """Yield every head, in the order of ``clients``."""
        yield from self._kept
        yield from self._others()

    def blocks(self) -> Iterator[NDArray[np.floating]]:
        """Yield the same heads some at a time, n x C x d."""
        for start in range(0, len(self._kept), BLOCK):
            yield self._kept[start : start + BLOCK]
        others = self._others()
        while block := list(islice(others, BLOCK)):
            yield np.stack(block)

    def _others(self) -> Iterator[Floats]:
        """Read the heads that are not kept."""
        rest = self.clients[len(self._kept) :]
        for client, (found, head) in zip(rest, self._read(rest), strict=True):
            if found != client:
                raise ValueError(f"the head of client {client} is gone")
            yield head
