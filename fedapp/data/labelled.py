"""Which of a client's training samples keep their labels."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

HIDDEN = 0x6C6162
"""Keeps these draws apart from others of the same seed."""


def split_labelled(
    labels: Ints, fraction: float, *, seed: int, client: int
) -> tuple[Ints, Ints]:
    """Return places of labelled and of unlabelled samples, each in order.

    Every class keeps its share, rounded half up, and at least one label. The draw
    depends on seed, client and labels alone.
    """
    rng = np.random.default_rng([seed, client, HIDDEN])
    shown = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        count = max(1, int(np.floor(fraction * len(places) + 0.5)))
        shown[rng.choice(places, size=count, replace=False)] = True
    return np.flatnonzero(shown), np.flatnonzero(~shown)
