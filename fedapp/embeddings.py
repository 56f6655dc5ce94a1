"""Embeddings of a client's samples by a clean pass, and sums of them by class."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn

from fedapp.data.samples import Samples
from fedapp.prototypes import Bank, class_means, class_sums

BATCH = 512


@torch.no_grad()
def embedded(encoder: nn.Module, samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield embeddings and labels in order: evaluation mode, no augmentation."""
    encoder.eval()
    for images, labels in samples.in_order(BATCH):
        yield encoder(images).float(), labels


@dataclass(frozen=True)
class ClassStatistics:
    """Sums of embeddings by class (C, d), counts (C,), the sum of squared lengths."""

    sums: Tensor
    counts: Tensor
    squares: float

    @property
    def means(self) -> Bank:
        """The prototype of each class that is present."""
        return class_means(self.sums, self.counts)

    @property
    def spread(self) -> float:
        """The root of the mean squared distance of samples to their class mean."""
        means = self.sums / self.counts.clamp(min=1e-12)[:, None]
        inside = self.squares - float((self.counts * means.square().sum(1)).sum())
        return sqrt(max(0.0, inside) / max(float(self.counts.sum()), 1e-12))

    def plus(self, other: "ClassStatistics", *, weight: float) -> "ClassStatistics":
        """Return these sums and counts and ``weight`` times those of ``other``."""
        return ClassStatistics(
            self.sums + weight * other.sums,
            self.counts + weight * other.counts,
            self.squares + weight * other.squares,
        )


def statistics(
    batches: Iterator[tuple[Tensor, Tensor]], *, classes: int, width: int
) -> ClassStatistics:
    """Return the statistics of embeddings (n, d) with labels, batch by batch."""
    sums = torch.zeros(classes, width, dtype=torch.float64)
    counts = torch.zeros(classes, dtype=torch.float64)
    squares = 0.0
    for features, labels in batches:
        more, number = class_sums(features, labels, classes)
        sums += more.cpu()
        counts += number.cpu()
        squares += float(features.double().square().sum())
    return ClassStatistics(sums, counts, squares)
