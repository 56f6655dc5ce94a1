"""A client's samples as rows of numbers, in float64 (section 22.1)."""

import zlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fedapp.data.samples import Samples

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_PIXELS = 4096
SIDE = 32


def images_of(samples: Samples) -> Floats:
    """Return the images (n, channels, h, w), as the model sees them, never augmented.

    Their scale is the loader's: public and the same for all clients, for scaling by a
    client's own would erase what tells it from others. Images of more than 4,096
    numbers are averaged down to at most 32x32 pixels.
    """
    parts = []
    with torch.no_grad():
        for images, _ in samples.in_order(512):
            if images.dim() != 4:
                images = images.flatten(1)[:, None, None]
            if images[0].numel() > MOST_PIXELS:
                height, width = images.shape[-2:]
                size = min(height, SIDE), min(width, SIDE)
                images = functional.adaptive_avg_pool2d(images, size)
            parts.append(images.double().cpu().numpy())
    return np.concatenate(parts)


def pixels_of(samples: Samples) -> Floats:
    """Return ``images_of`` as rows (n, p)."""
    images = images_of(samples)
    return images.reshape(len(images), -1)


def low_frequencies(images: Floats, count: int) -> Floats:
    """Return the lowest ``count`` x ``count`` cosine coefficients of each channel.

    (n, channels * count * count), fewer of images that are smaller. The cosines are
    orthonormal: this is the corner of a discrete cosine transform.
    """
    high, wide = (_cosines(side, count) for side in images.shape[-2:])
    found = np.einsum("nchw,uh,vw->ncuv", images, high, wide, optimize=True)
    return found.reshape(len(images), -1)


def _cosines(size: int, count: int) -> Floats:
    """Return the first cosines over ``size`` places, as rows of norm 1."""
    places, orders = np.arange(size) + 0.5, np.arange(min(count, size))
    waves = np.cos(np.pi * orders[:, None] * places / size)
    return waves / np.linalg.norm(waves, axis=1, keepdims=True)


def labels_of(samples: Samples) -> Ints:
    """Return the labels (n,)."""
    return samples.labels.cpu().numpy().astype(np.int64)


def one_hot(labels: Ints, classes: int) -> Floats:
    """Return a row (classes,) for each label."""
    found = np.zeros((len(labels), classes))
    found[np.arange(len(labels)), labels] = 1.0
    return found


def balanced_scale(pixels: int, classes: int) -> float:
    """Return the factor that gives labels as much variance as pixels of variance 1."""
    return float(np.sqrt(pixels / (1 - 1 / classes))) if classes > 1 else 1.0


def with_labels(pixels: Floats, labels: Ints, classes: int, scale: float) -> Floats:
    """Return rows [pixels, scale * onehot(label)] (n, p + classes)."""
    return np.hstack([pixels, scale * one_hot(labels, classes)])


def fingerprint(samples: Samples) -> int:
    """Return a number that changes when a sample does."""
    found = 0
    for part in (samples.labels, samples.images):
        found = zlib.crc32(part.cpu().contiguous().numpy().data, found)
    return found
