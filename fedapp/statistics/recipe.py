"""Which statistic a client computes of its training samples, and how."""

import zlib
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from threadpoolctl import threadpool_limits

from fedapp.data.samples import Samples
from fedapp.statistics.moments import class_contrasts, class_moments, scaled_to
from fedapp.statistics.rows import (
    Floats,
    balanced_scale,
    images_of,
    labels_of,
    low_frequencies,
    pixels_of,
    with_labels,
)
from fedapp.statistics.spectrum import (
    Transform,
    leading_variances,
    transformed,
    variances_along,
)

Mode = Literal[
    "eig",
    "eig-w",
    "eig-rp",
    "probe",
    "moments",
    "moments-local",
    "contrasts",
    "zeros",
    "client-id",
    "shuffled",
    "cluster-onehot",
]
LabelScale = Literal["auto", "one", "balanced"]

StatMode = Annotated[
    Mode, Field(description="statistic that conditions the model; docs/methods.md")
]
Agreement = Annotated[
    Literal["auto", "always", "never"],
    Field(description="standardise s by constants agreed on once; auto: moments only"),
]
Length = Annotated[int, Field(ge=1, le=4096, description="numbers in the statistic")]

PROJECTED = 40
"""Dimensions that ``eig-rp`` keeps."""
FEATURES = 16
"""Projections of an image that moments are taken of."""
SIDE_FEATURES = 4
"""Cosines of each side of an image, per channel, that contrasts are taken of."""


@dataclass(frozen=True)
class Recipe:
    """How s is made. ``seed`` is public: it draws the matrices all clients share."""

    mode: Mode
    length: int
    label_scale: LabelScale
    transform: Transform
    seed: int

    def public(self, name: str, *shape: int) -> Floats:
        """Return a matrix of standard normal numbers, the same for all clients."""
        key = [self.seed, zlib.crc32(name.encode()), *shape]
        return np.random.default_rng(key).standard_normal(shape)

    def mix(self, width: int) -> Floats:
        """Return a public matrix (width, length) with orthonormal columns or rows."""
        drawn = self.public("mix", max(width, self.length), min(width, self.length))
        base: Floats = np.linalg.qr(drawn)[0]
        return base if width >= self.length else base.T


def statistic(
    recipe: Recipe, samples: Samples, *, classes: int, client: int, group: int = -1
) -> Floats:
    """Return a client's s (length,), before any constants are agreed on.

    ``client`` counts for the control ``client-id`` only, the latent ``group`` for
    ``cluster-onehot`` only.
    """
    mode, length = recipe.mode, recipe.length
    if mode == "zeros":
        return np.zeros(length)
    if mode == "client-id":
        return recipe.public(f"client {client}", length)
    if mode == "cluster-onehot":
        return _marked(group, length)
    with threadpool_limits(limits=1):
        labels = labels_of(samples)
        if mode == "contrasts":
            features = low_frequencies(images_of(samples), SIDE_FEATURES)
            values = class_contrasts(features, labels, classes)
            return scaled_to(values @ recipe.mix(len(values)), length**0.5)
        pixels = pixels_of(samples)
        if mode in ("moments", "moments-local"):
            project = recipe.public("features", pixels.shape[1], FEATURES)
            features = pixels @ project / np.sqrt(pixels.shape[1])
            values = class_moments(features, labels, classes)
            found = values @ recipe.public("moments", len(values), length)
            found /= np.sqrt(len(values))
            return found if mode == "moments" else scaled_to(found, length**0.5)
        scale = _label_scale(recipe, pixels.shape[1], classes)
        rows = with_labels(pixels, labels, classes, scale)
        return transformed(_variances(recipe, rows), recipe.transform)


def _label_scale(recipe: Recipe, pixels: int, classes: int) -> float:
    # As published the labels stand beside the pixels as they are.
    published = recipe.mode in ("eig", "shuffled")
    if recipe.label_scale == "one" or (recipe.label_scale == "auto" and published):
        return 1.0
    return balanced_scale(pixels, classes)


def _variances(recipe: Recipe, rows: Floats) -> Floats:
    width = rows.shape[1]
    if recipe.mode == "probe":
        directions = recipe.public("probe", width, recipe.length) / np.sqrt(width)
        return variances_along(rows, directions)
    if recipe.mode == "eig-w":
        rows = rows * np.exp(recipe.public("weights", width))
    elif recipe.mode == "eig-rp":
        rows = rows @ recipe.public("projection", width, PROJECTED) / PROJECTED**0.5
    return leading_variances(rows, recipe.length)


def _marked(group: int, length: int) -> Floats:
    if not 0 <= group < length:
        raise ValueError(
            f"latent group {group} has no place among conditional.length = {length} "
            "numbers; stat-mode = 'cluster-onehot' needs as many as there are groups, "
            "and a simulation, which knows them"
        )
    found = np.zeros(length)
    found[group] = 1.0
    return found
