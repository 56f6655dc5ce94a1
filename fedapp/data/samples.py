"""Labelled images in memory, read by the batch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

View = Callable[[Tensor, torch.Generator | None], Tensor]
"""Raw images to model input; with a generator, augmented by it."""


@dataclass(frozen=True)
class Samples:
    """Images (n, C, H, W) and integer labels (n,), as one client sees them.

    Without a ``view``, ``images`` are float32 model input. With one, they are raw
    and ``view`` prepares each batch: augments if it is given a generator, then
    shifts and normalises.
    """

    images: Tensor
    labels: Tensor
    view: View | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def batch(
        self, index: Tensor | slice, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return images and labels at ``index``; a generator allows augmentation."""
        images = self.images[index]
        if self.view is not None:
            images = self.view(images, generator)
        if images.dim() == 4:
            # Convolutions and pooling on a CPU are much faster in this layout.
            images = images.contiguous(memory_format=torch.channels_last)
        return images, self.labels[index]

    def shuffled(
        self, batch_size: int, generator: torch.Generator
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield one epoch in random order; the last batch may be short."""
        order = torch.randperm(len(self), generator=generator)
        for index in order.to(self.labels.device).split(batch_size):
            yield self.batch(index, generator)

    def in_order(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield every sample once, in order and without augmentation."""
        for start in range(0, len(self), batch_size):
            yield self.batch(slice(start, start + batch_size))

    def to(self, device: torch.device) -> "Samples":
        """Return the same samples on ``device``."""
        return Samples(self.images.to(device), self.labels.to(device), self.view)
