"""What the rounds of a prototype method show: drift, angles, means over clients."""

from collections.abc import Mapping

import torch

from fedapp.prototypes import EPSILON, Bank, unit


def drift(before: Bank, after: Bank) -> float | None:
    """Return how far prototypes moved, relative to their length; None if none did.

    The mean over classes that were known before.
    """
    both = before.known & after.known
    if not both.any():
        return None
    moved = (after.values - before.values)[both].double().norm(dim=1)
    return float(
        (moved / before.values[both].double().norm(dim=1).clamp(EPSILON)).mean()
    )


def angles(bank: Bank) -> tuple[float, float] | None:
    """Return mean and smallest angle between known prototypes, in degrees."""
    rows = unit(bank.values[bank.known].double())
    if len(rows) < 2:
        return None
    upper = torch.triu_indices(len(rows), len(rows), offset=1)
    cosines = (rows @ rows.T)[upper[0], upper[1]].clamp(-1, 1)
    degrees = torch.rad2deg(torch.arccos(cosines))
    return float(degrees.mean()), float(degrees.min())


def weighted_metric(
    found: list[tuple[Mapping[str, int | float], int]], name: str
) -> float | None:
    """Return the mean of a metric over replies that have it, weighted by examples."""
    have = [(metrics[name], n) for metrics, n in found if name in metrics]
    total = sum(n for _, n in have)
    return sum(value * n for value, n in have) / total if total else None
