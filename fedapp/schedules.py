"""How the weight of a term grows over the rounds: shares between 0 and 1."""

from math import ceil, cos, pi
from typing import Literal

Shape = Literal["linear", "constant", "cosine", "step"]


def share_at(shape: Shape, *, elapsed: int, warm_up: int) -> float:
    """Return the share of the full weight after ``elapsed`` rounds.

    All shapes are 1 from ``warm_up`` rounds on; before that, ``linear`` and ``cosine``
    rise from 0, ``step`` is 0, and ``constant`` is 1. ``elapsed`` is 0 in the first
    round.
    """
    if elapsed < 0 or warm_up < 0:
        raise ValueError(f"rounds count from 0; got {elapsed} elapsed of {warm_up}")
    if shape == "constant" or elapsed >= warm_up:
        return 1.0
    if shape == "step":
        return 0.0
    linear = elapsed / warm_up
    return linear if shape == "linear" else (1 - cos(pi * linear)) / 2


def rounds_of(share: float, rounds: int) -> int:
    """Return a share of the rounds, rounded up."""
    # The small number: 0.28 * 25 is 7.000000000000001 and would give 8.
    return ceil(share * rounds - 1e-9)
