"""Decoded images and labels, and how single ones become arrays."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image


@dataclass(frozen=True)
class Columns:
    """Column names of a parquet file; an empty ``client`` means there are no owners."""

    image: str
    label: str
    client: str


@dataclass(frozen=True)
class Source:
    """A file, whether it is of the official test split, and its class, if any."""

    file: Path
    test: bool = False
    label: str | None = None


@dataclass(frozen=True)
class Decoded:
    """Images (N, C, H, W) and what belongs to each; as ``ImageSet``, in memory."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    owners: NDArray[np.int64] | None
    official_test: NDArray[np.bool_]
    names: tuple[str, ...]


def stack(images: Iterable[tuple[bytes | None, str]], count: int) -> NDArray[np.uint8]:
    """Decode ``count`` encoded images, each with the place to name in an error."""
    stack: NDArray[np.uint8] = np.empty((0, 0, 0, 0), np.uint8)
    for index, (data, where) in enumerate(images):
        pixels = _pixels(data, where)
        if index == 0:
            stack = np.empty((count, *pixels.shape), np.uint8)
        if pixels.shape[1:] != stack.shape[2:]:
            (height, width), (first_height, first_width) = (
                pixels.shape[1:],
                stack.shape[2:],
            )
            raise ValueError(
                f"{where}: image of {height}x{width} pixels after some of "
                f"{first_height}x{first_width}; make all images of one size"
            )
        if len(pixels) > stack.shape[1]:
            stack = np.repeat(stack, 3, axis=1)
        stack[index] = pixels
    return stack


def _pixels(data: bytes | None, where: str) -> NDArray[np.uint8]:
    try:
        with Image.open(io.BytesIO(data or b"")) as image:
            if image.mode.startswith(("I", "F")):
                raise ValueError(
                    f"{image.mode} pixels; only 8-bit images are supported"
                )
            grey = image.mode in ("L", "LA", "1")
            pixels = np.asarray(image.convert("L" if grey else "RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{where}: not a readable image: {error}") from error
    return pixels[None] if grey else pixels.transpose(2, 0, 1)


def number(
    values: Sequence[int | str],
    where: str,
    known: Sequence[str] = (),
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return labels as integers, and the names of the classes.

    Text is numbered in sorted order, ``known`` names included. Integers stay: they
    number the ``known`` names; without those, classes run to the largest and are named
    by their numbers. ``where`` starts error messages.
    """
    if all(isinstance(value, str) for value in values):
        names = tuple(sorted({*map(str, values), *known}))
        codes = {name: code for code, name in enumerate(names)}
        return np.array([codes[str(value)] for value in values], np.int64), names
    if any(isinstance(value, str) for value in values):
        raise ValueError(
            f"{where}labels are partly text, partly integers; use one kind"
        )
    labels = np.array(values, dtype=np.int64)
    classes = len(known) or int(labels.max()) + 1
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise ValueError(
            f"{where}sample {wrong[0]} has label {labels[wrong[0]]}, outside 0.."
            f"{classes - 1}; number classes from 0"
        )
    if not known and classes > len(labels):
        raise ValueError(
            f"{where}labels run to {classes - 1} with only {len(labels)} samples; "
            "number classes from 0 without gaps"
        )
    return labels, tuple(known) or tuple(map(str, range(classes)))
