"""What a table compares with the paper, and how seeds become one number."""

import math
from collections.abc import Mapping, Sequence

REPORTED = ("mean", "worst", "bottom20", "gap")
"""The accuracies that every table shows, by their names in summary.json."""

MEASURES = {
    "final-accuracy": "mean",
    "weighted-accuracy": "weighted_mean",
    "worst-accuracy": "worst",
    "bottom20-accuracy": "bottom20",
    "accuracy-gap": "gap",
}
"""Which accuracy of the last evaluation stands beside the paper's, by measure."""

ALSO = ("rank", "tail-rank", "traffic", "seconds")
"""What a table may show besides: places among the rows of a column, and costs."""

COSTS = {"traffic": "bytes", "seconds": "seconds"}
"""Which of these are numbers of a run, and their names in the results."""


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


def costs(also: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the costs among what a table also shows."""
    return tuple(name for word, name in COSTS.items() if word in also)


def summarise(
    runs: Sequence[Mapping[str, float]], names: Sequence[str]
) -> dict[str, tuple[float, float | None]]:
    """Return mean and deviation over ``runs`` of each named accuracy."""
    return {name: over_seeds([run[name] for run in runs]) for name in names}
