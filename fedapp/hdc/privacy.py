"""How much Gaussian noise hides a vector, and how much it does not.

Balle and Wang 2018 (arXiv 1805.06083), theorem 8: noise of deviation sigma on numbers
that two inputs can move apart by a distance Delta is (epsilon, delta)-differentially
private if and only if

    Phi(Delta / 2 sigma - epsilon sigma / Delta)
      - exp(epsilon) Phi(-Delta / 2 sigma - epsilon sigma / Delta)  <=  delta.

Unlike the classical formula it is exact, and holds for epsilon above 1. Releases add
up exactly, too, even when each depends on those before: n of them with one sigma
reveal what one reveals whose inputs are sqrt(n) times as far apart (Dong, Roth and Su
2022, corollary 3.3).
"""

import functools
import math
from collections.abc import Callable

UNIT_VECTORS = 2.0
"""Farthest that two vectors of norm at most 1 can be apart."""


def delta_of(
    sigma: float, *, epsilon: float, distance: float = UNIT_VECTORS, releases: int = 1
) -> float:
    """Return the least delta for which the noise is (epsilon, delta)-private."""
    # Imported here: it takes a while, and every worker imports this file.
    from scipy.special import log_ndtr

    apart = distance * math.sqrt(releases) / sigma
    # In logarithms: exp(epsilon) alone overflows from 710 on.
    first = float(log_ndtr(apart / 2 - epsilon / apart))
    second = epsilon + float(log_ndtr(-apart / 2 - epsilon / apart))
    return max(0.0, math.exp(first) - math.exp(min(second, first)))


@functools.cache
def sigma_for(*, epsilon: float, delta: float, distance: float = UNIT_VECTORS) -> float:
    """Return the least noise that is (epsilon, delta)-private, rounded up."""
    if not (epsilon > 0 and 0 < delta < 1):
        raise ValueError(
            "need epsilon above 0 and delta between 0 and 1; "
            f"got epsilon {epsilon} and delta {delta}"
        )

    def hides(sigma: float) -> bool:
        return delta_of(sigma, epsilon=epsilon, distance=distance) <= delta

    return _least(hides)


def epsilon_of(
    sigma: float, *, delta: float, releases: int, distance: float = UNIT_VECTORS
) -> float:
    """Return the least epsilon of all ``releases`` together, rounded up."""

    def holds(epsilon: float) -> bool:
        found = delta_of(sigma, epsilon=epsilon, distance=distance, releases=releases)
        return found <= delta

    return _least(holds)


def _least(holds: Callable[[float], bool]) -> float:
    """Return the least positive number from which on ``holds``, rounded up."""
    low = high = 1.0
    while not holds(high):
        low, high = high, 2 * high
    while low > 1e-12 and holds(low):
        low, high = low / 2, low
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
