"""Which clients have similar heads, and how much each counts (PFedCS)."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TOLERANCE = 1e-9
"""In the last round of the first stage the threshold is the minimum, up to rounding."""

EQUAL = 1e-12
FEWEST = 4
"""Peers; among fewer, or equally distant ones, there is no telling two kinds apart."""


def distances(own: Floats, peers: Floats) -> Floats:
    """Return the squared distance of ``own`` to each row of ``peers``, the largest 1.

    One row of D. The scale is the client's own, so D is not symmetric.
    """
    found: Floats = ((peers - own) ** 2).sum(axis=1)
    return found / found.max() if found.max() > 0 else found


def near(values: Floats) -> NDArray[np.bool_]:
    """Return which values belong to the lower of two kinds: the best two means.

    Departure: the paper fits a mixture of two normal distributions. Among few values
    that often ends with a single one as a kind of its own.
    """
    if len(values) < FEWEST or values.var() < EQUAL:
        return np.ones(len(values), bool)
    ordered = np.sort(values)
    low = np.arange(1, len(values))
    high = len(values) - low
    sums = ordered.cumsum()
    apart = (sums[-1] - sums[:-1]) / high - sums[:-1] / low
    cut: Floats = ordered[(low * high * apart**2).argmax()]
    return values <= cut


def threshold(values: Floats, *, round: int, last: int) -> float:
    """Return tau, which falls from the mean to the minimum as the stage goes on."""
    mean = float(values.mean())
    return mean + round / last * (float(values.min()) - mean)


def collaborators(values: Floats, *, round: int, last: int) -> NDArray[np.intp]:
    """Return which peers, at these distances, a client learns from."""
    below = values <= threshold(values, round=round, last=last) + TOLERANCE
    return np.flatnonzero(near(values) & below)


def shares(values: Floats, examples: Floats, *, similarity: float) -> Floats:
    """Return the weight of each collaborator in the teacher; they add up to 1.

    The client itself is one of them, at distance 0. Departure: the printed formula
    leaves it out of maximum, mean and sums; its weights add up to more than 1, and one
    collaborator is a division by zero.
    """
    spread = len(values) * (values.max() - values.mean())
    even = np.full(len(values), 1 / len(values))
    close = even if spread < EQUAL * len(values) else (values.max() - values) / spread
    found: Floats = similarity * close + (1 - similarity) * examples / examples.sum()
    return found
