"""What a table compares with the paper, and how seeds become one number."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

REPORTED = ("mean", "worst", "bottom20", "gap")
"""The accuracies that every table shows, by their names in summary.json."""

MEASURES = {
    "final-accuracy": "mean",
    "weighted-accuracy": "weighted_mean",
    "worst-accuracy": "worst",
    "bottom20-accuracy": "bottom20",
    "accuracy-gap": "gap",
    "unseen-accuracy": "unseen",
}
"""Which accuracy of the last evaluation stands beside the paper's, by measure."""


def over_seeds(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the sample deviation, which one value does not have."""
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, None
    squares = math.fsum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(squares / (len(values) - 1))


def needed(measure: str) -> tuple[str, ...]:
    """Return the names of the accuracies that a table with this measure shows."""
    return tuple(dict.fromkeys([*REPORTED, MEASURES[measure]]))


def accuracies_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return the accuracies in a summary.json, that of unseen clients among them."""
    unseen = summary.get("unseen")
    return {**summary["accuracy"], **({"unseen": unseen["mean"]} if unseen else {})}


def summarise(
    runs: Sequence[Mapping[str, float]], names: Sequence[str]
) -> dict[str, tuple[float, float | None]]:
    """Return mean and deviation over ``runs`` of each named accuracy."""
    return {name: over_seeds([run[name] for run in runs]) for name in names}
