"""What a table compares with the paper, and how seeds become one number."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

REPORTED = ("mean", "worst", "bottom20", "gap")
"""The accuracies that every table shows, by their names in summary.json."""

ARI = "ari_latent"
"""The adjusted Rand index of groups and latent groups: no share, 1 is the best."""

MEASURES = {
    "final-accuracy": "mean",
    "weighted-accuracy": "weighted_mean",
    "worst-accuracy": "worst",
    "bottom20-accuracy": "bottom20",
    "accuracy-gap": "gap",
    "latent-ari": ARI,
}
"""Which number stands beside the paper's, by measure: accuracies of the last
evaluation, or how well the last refresh of HDC-FL found the latent groups."""


def over_seeds(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the sample deviation, which one value does not have."""
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, None
    squares = math.fsum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(squares / (len(values) - 1))


def needed(measure: str) -> tuple[str, ...]:
    """Return the names of the numbers that a table with this measure shows."""
    return tuple(dict.fromkeys([*REPORTED, MEASURES[measure]]))


def summarise(
    runs: Sequence[Mapping[str, float]], names: Sequence[str]
) -> dict[str, tuple[float, float | None]]:
    """Return mean and deviation over ``runs`` of each named number all of them have."""
    return {
        name: over_seeds([run[name] for run in runs])
        for name in names
        if all(name in run for run in runs)
    }


def last_ari(run: Path) -> dict[str, float]:
    """Return the index of the last refresh in a run folder, nothing without one."""
    try:
        with (run / "hdc-fl" / "refreshes.csv").open(newline="") as stream:
            found = [row[ARI] for row in csv.DictReader(stream)]
    except FileNotFoundError:
        return {}
    return {ARI: float(found[-1])} if found and found[-1] else {}
