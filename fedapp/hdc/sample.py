"""A seeded sample of clients that stays nearly the same as clients come and go."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedapp.hdc.grouping import Labels

Words = NDArray[np.uint64]


def sample_positions(clients: Sequence[int], size: int, *, seed: int) -> Labels:
    """Return the positions in ``clients`` of at most ``size`` of them, ascending.

    Each client has a key from (seed, client) alone, and the smallest keys win: two
    refreshes with nearly the same clients have nearly the same sample.
    """
    start = _mixed(np.array([seed], dtype=np.uint64))
    # Clients differ, and so do their keys: the mixing could be undone.
    keys = _mixed(np.asarray(clients, dtype=np.uint64) ^ start)
    return np.sort(np.argsort(keys)[:size]).astype(np.int64)


def _mixed(words: Words) -> Words:
    """Return 64-bit words scattered by SplitMix64 (Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        mixed = words + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
