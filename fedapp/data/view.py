"""From raw images to what a client's model sees."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedapp.data.shift import Shift, shift_images

PADDING = 4


@dataclass(frozen=True)
class ClientView:
    """A client's way from raw images to model input; augments before its shift."""

    client: int
    shift: Shift
    seed: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, images: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return uint8 ``images`` as float32, augmented if there is a generator."""
        if generator is not None:
            images = augmented(images, generator)
        pixels = images.float() / 255
        pixels = shift_images(pixels, self.client, self.shift, seed=self.seed)
        mean = torch.tensor(self.mean, device=images.device).view(-1, 1, 1)
        std = torch.tensor(self.std, device=images.device).view(-1, 1, 1)
        return (pixels - mean) / std


def augmented(images: Tensor, generator: torch.Generator) -> Tensor:
    """Crop each image at random from itself with a zero border; flip half of them."""
    count, channels, height, width = images.shape
    source, device = generator.device, images.device
    span = 2 * PADDING + 1
    offsets = torch.randint(span, (2, count), generator=generator, device=source)
    flip = torch.rand(count, generator=generator, device=source) < 0.5
    rows = offsets[0].to(device)[:, None] + torch.arange(height, device=device)
    cols = offsets[1].to(device)[:, None] + torch.arange(width, device=device)
    cols = torch.where(flip.to(device)[:, None], cols.flip(1), cols)
    padded = torch.nn.functional.pad(images, (PADDING,) * 4)
    return padded[
        torch.arange(count, device=device)[:, None, None, None],
        torch.arange(channels, device=device)[None, :, None, None],
        rows[:, None, :, None],
        cols[:, None, None, :],
    ]
