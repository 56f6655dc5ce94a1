"""Class prototypes: means of embeddings by class, what is known of them, their mean.

A *bank* has one row per class and says which rows are known. On the wire only known
rows travel, with the numbers of their classes (specification 17 and 25.1).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from fedapp.params import Params

Weighting = Literal["count", "uniform"]

EPSILON = 1e-12
"""Smallest norm that is divided by."""


@dataclass(frozen=True)
class Bank:
    """Prototypes of all classes: ``values`` (C, d), of which ``known`` (C,) are any."""

    values: Tensor
    known: Tensor

    @staticmethod
    def empty(classes: int, width: int) -> "Bank":
        """Return a bank that knows no class."""
        known = torch.zeros(classes, dtype=torch.bool)
        return Bank(torch.zeros(classes, width), known)

    @staticmethod
    def of_state(tree: Params) -> "Bank":
        """Return the bank that ``state`` wrote."""
        return Bank(tree["values"], tree["known"])

    @property
    def state(self) -> dict[str, Tensor]:
        """The bank as tensors by name."""
        return {"values": self.values, "known": self.known}

    @property
    def classes(self) -> Tensor:
        """The numbers of the known classes, in order."""
        return self.known.nonzero()[:, 0]

    def to(self, device: torch.device) -> "Bank":
        """Return the same bank on ``device``."""
        return Bank(self.values.to(device), self.known.to(device))


def class_sums(features: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return sums of ``features`` (n, d) by class (C, d), and counts; in float64."""
    sums = features.new_zeros(classes, features.shape[1], dtype=torch.float64)
    sums.index_add_(0, labels, features.double())
    return sums, torch.bincount(labels, minlength=classes).double()


def class_means(sums: Tensor, counts: Tensor) -> Bank:
    """Return the mean of each class that has a count; float32."""
    known = counts > 0
    means = torch.where(known[:, None], sums / counts.clamp(min=EPSILON)[:, None], 0.0)
    return Bank(means.float(), known)


class PrototypeMean:
    """The mean of clients' prototypes by class; sums in float64, in the order of add.

    ``count`` weighs a client's prototype by its samples of the class, ``uniform``
    counts all clients that hold the class equally. Departure from the paper of
    FedProto, which prints a weight *and* a division by the number of clients: that
    shrinks prototypes, and its code does not do it. ``like`` has the shape.
    """

    def __init__(self, like: Bank, weighting: Weighting) -> None:
        self._sums = torch.zeros_like(like.values, dtype=torch.float64)
        self._weights = torch.zeros(len(like.known), dtype=torch.float64)
        self._weighting = weighting

    def add(self, values: Tensor, classes: Tensor, counts: Tensor | None) -> None:
        """Add one client's prototypes (m, d) of ``classes`` (m,)."""
        weights = torch.ones(len(classes), dtype=torch.float64)
        if self._weighting == "count":
            assert counts is not None
            weights = counts.double()
        index = classes.long()
        self._sums.index_add_(0, index, values.double() * weights[:, None])
        self._weights.index_add_(0, index, weights)

    def merged(self, before: Bank, *, momentum: float = 0.0) -> Bank:
        """Return ``before`` with the mean put in; classes nobody reported keep theirs.

        ``momentum`` is the share of the old prototype where there was one.
        """
        fresh = class_means(self._sums, self._weights)
        kept = torch.where(before.known & fresh.known, momentum, 0.0)
        # Without momentum the new value is taken as it is, to the last bit.
        moved = torch.lerp(fresh.values, before.values, kept[:, None])
        moved = torch.where((kept == 0)[:, None], fresh.values, moved)
        values = torch.where(fresh.known[:, None], moved, before.values)
        return Bank(values, before.known | fresh.known)


def unit(rows: Tensor) -> Tensor:
    """Return rows of length one; a zero row stays zero."""
    return functional.normalize(rows, dim=1, eps=EPSILON)


def squared_distances(features: Tensor, bank: Bank) -> Tensor:
    """Return ``||z - P_c||^2`` (n, C); infinite for classes that are not known."""
    apart = features[:, None, :] - bank.values
    return apart.square().sum(2).masked_fill(~bank.known, torch.inf)


def cosine_distances(features: Tensor, bank: Bank) -> Tensor:
    """Return ``1 - cos(z, P_c)`` (n, C); infinite for classes that are not known."""
    apart = 1 - unit(features) @ unit(bank.values).T
    return apart.masked_fill(~bank.known, torch.inf)


def as_logits(distances: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Return logits that are largest for the nearest class.

    A class that is not known comes behind all others but keeps a finite loss: a test
    sample may be of a class that nobody reported.
    """
    known = torch.isfinite(distances)
    logits = -distances / temperature
    last = logits.masked_fill(~known, torch.inf).amin(dim=1, keepdim=True) - 50
    return torch.where(known, logits, last)
