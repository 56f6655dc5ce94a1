"""Which clients have similar heads, and how much each counts (PFedCS)."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TOLERANCE = 1e-9
"""In the last round of the first stage the threshold is the minimum, up to rounding."""

EQUAL = 1e-12
STEPS = 100
MIN_VARIANCE = 1e-6
FEWEST = 4
"""Peers; among fewer, or equally distant ones, there is no telling two kinds apart."""


def distances(own: Floats, peers: Floats) -> Floats:
    """Return the squared distance of ``own`` to each row of ``peers``, the largest 1.

    One row of D. The scale is the client's own, so D is not symmetric.
    """
    found: Floats = ((peers - own) ** 2).sum(axis=1)
    return found / found.max() if found.max() > 0 else found


def near(values: Floats) -> NDArray[np.bool_]:
    """Return which values belong to the lower of two normal distributions.

    Expectation maximisation, from means at the ends and the common variance.
    """
    if len(values) < FEWEST or values.var() < EQUAL:
        return np.ones(len(values), bool)
    means = np.array([values.min(), values.max()])
    variances, shares = np.full(2, values.var()), np.full(2, 0.5)
    for _ in range(STEPS):
        squares = (values[:, None] - means) ** 2
        logs = np.log(shares) - 0.5 * (np.log(variances) + squares / variances)
        belongs = np.exp(logs - logs.max(axis=1, keepdims=True))
        belongs /= belongs.sum(axis=1, keepdims=True)
        mass = np.maximum(belongs.sum(axis=0), EQUAL)
        means = (belongs * values[:, None]).sum(axis=0) / mass
        squares = (values[:, None] - means) ** 2
        variances = (belongs * squares).sum(axis=0) / mass
        variances = np.maximum(variances, MIN_VARIANCE)
        shares = mass / mass.sum()
    chosen: NDArray[np.bool_] = belongs[:, means.argmin()] >= 0.5
    return chosen


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
