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

OF_UNSEEN = (
    "mean",
    "unseen",
    "unseen_worst",
    "unseen_shared",
    "unseen_shared_worst",
    "unseen_alone",
    "unseen_alone_worst",
)
"""What a table about unseen clients shows instead; not every method has all of it."""


def over_seeds(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the sample deviation, which one value does not have."""
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, None
    squares = math.fsum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(squares / (len(values) - 1))


def needed(measure: str) -> tuple[str, ...]:
    """Return the names of the accuracies that a table with this measure shows."""
    if about_unseen(measure):
        return OF_UNSEEN
    return tuple(dict.fromkeys([*REPORTED, MEASURES[measure]]))


def about_unseen(measure: str) -> bool:
    """Return whether a measure is of unseen clients."""
    return MEASURES[measure] in OF_UNSEEN[1:]


def numbers_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return the accuracies in a run's summary, those of unseen clients by model."""
    found: dict[str, float] = dict(summary["accuracy"])
    unseen = summary.get("unseen")
    if unseen is not None:
        found |= {"unseen": unseen["mean"], "unseen_worst": unseen["worst"]}
        for model, few in unseen["models"].items():
            found[f"unseen_{model}"] = few["mean"]
            found[f"unseen_{model}_worst"] = few["worst"]
    return found


def summarise(
    runs: Sequence[Mapping[str, float]], names: Sequence[str]
) -> dict[str, tuple[float, float | None]]:
    """Return mean and deviation over ``runs`` of each named accuracy they all have."""
    return {
        name: over_seeds([run[name] for run in runs])
        for name in names
        if all(name in run for run in runs)
    }
