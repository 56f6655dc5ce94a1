"""Labels for unlabelled samples: the nearest global prototype, if it is near enough."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedapp.params import Params

ENOUGH = 5
"""Samples of a class from which it has a threshold of its own."""
KEPT = 0.9
"""Share of the old threshold that a new one leaves."""


@dataclass(frozen=True)
class Thresholds:
    """Largest distance at which a pseudo-label is accepted.

    ``client`` is one number for all, ``by_class`` (C,) what is used: a class with too
    few samples has the client's. Below zero: accept nothing.
    """

    client: float
    by_class: Tensor

    @staticmethod
    def of_state(tree: Params) -> "Thresholds":
        """Return what ``state`` wrote."""
        return Thresholds(float(tree["client"]), tree["by-class"])

    @staticmethod
    def same(value: float, classes: int) -> "Thresholds":
        """Return one threshold for all classes."""
        return Thresholds(value, torch.full((classes,), value))

    @property
    def state(self) -> dict[str, Tensor]:
        """The thresholds as tensors by name."""
        return {"client": torch.tensor(self.client), "by-class": self.by_class}

    def smoothed(self, fresh: "Thresholds") -> "Thresholds":
        """Return the exponential average of these and fresh ones."""
        return Thresholds(
            KEPT * self.client + (1 - KEPT) * fresh.client,
            KEPT * self.by_class + (1 - KEPT) * fresh.by_class,
        )


def thresholds(
    distances: Tensor, labels: Tensor, *, quantile: float
) -> Thresholds | None:
    """Return quantiles of the distances (n, C) of samples whose nearest class is right.

    Distances of classes that are not known are infinite. None if there is no such
    sample.
    """
    nearest, place = distances.min(dim=1)
    right = (place == labels) & torch.isfinite(nearest)
    if not bool(right.any()):
        return None
    client = torch.quantile(nearest[right], quantile)
    by_class = client.repeat(distances.shape[1])
    for label in range(distances.shape[1]):
        mine = nearest[right & (labels == label)]
        if len(mine) >= ENOUGH:
            by_class[label] = torch.quantile(mine, quantile)
    return Thresholds(float(client), by_class.cpu())


def pseudo_labels(distances: Tensor, limits: Thresholds) -> tuple[Tensor, Tensor]:
    """Return the nearest class of each sample, and whether it is accepted.

    A class that is not known is never proposed; a threshold of zero accepts nothing.
    """
    nearest, labels = distances.min(dim=1)
    limit = limits.by_class.to(distances.device)[labels]
    return labels, torch.isfinite(nearest) & (nearest <= limit) & (limit > 0)
