"""What prototype methods leave in a run folder, for the report."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fedapp.files import TensorFile
from fedapp.report.parts import Number, Part, Share

Array = NDArray[np.float64]

BANKS = {
    "fedproto": "prototypes",
    "fedsap": "prototypes",
    "fedmps": "protos-high",
    "fednh": "protos",
}
"""Where a method's state has its prototypes."""


class RoundRow(Part):
    """One row of rounds.csv; what a method does not measure is None."""

    round: Number
    lam: float | None = None
    full_lam: float | None = None
    entropy_gradient: float | None = None
    alignment_gradient: float | None = None
    separation_gradient: float | None = None
    spread: float | None = None
    drift: float | None = None
    angle_mean: float | None = None
    angle_min: float | None = None


class PseudoRow(Part):
    """One row of pseudo_labels.csv."""

    round: Number
    accepted_share: Share | None
    accepted_accuracy: Share | None


class Flat(NamedTuple):
    """Points of a plane (n, 2), the class of each, and the share of variance shown."""

    points: Array
    classes: tuple[int, ...]
    shown: float


def read_prototypes(path: Path, method: str) -> tuple[Array, tuple[int, ...]] | None:
    """Return known prototypes (m, d) of a finished run and their classes, or None.

    Raises
    ------
    ValueError
        If the file is broken.
    """
    file = path / "final" / "state.safetensors"
    if method not in BANKS or not file.is_file():
        return None
    part = TensorFile(file).part(BANKS[method])
    values = part["values"].double().numpy()
    known = part["known"].numpy() if "known" in part else np.ones(len(values), bool)
    return values[known], tuple(np.flatnonzero(known).tolist())


def flat(rows: Array, classes: tuple[int, ...], *, also: Array | None = None) -> Flat:
    """Return ``rows`` (m, d), then ``also`` (k, d), in the plane of the rows' spread.

    Its axes are their two main directions. Each points to where its largest entry is
    positive, so that the same rows give the same picture.
    """
    centred = rows - rows.mean(axis=0)
    with threadpool_limits(limits=1):
        _, scales, directions = np.linalg.svd(centred, full_matrices=False)
    main = directions[:2]
    largest = np.abs(main).argmax(axis=1)
    main = main * np.where(main[np.arange(len(main)), largest] < 0, -1, 1)[:, None]
    total = float((scales**2).sum())
    every = centred if also is None else np.vstack([centred, also - rows.mean(axis=0)])
    points = np.zeros((len(every), 2))
    points[:, : len(main)] = every @ main.T
    return Flat(
        points, classes, float((scales[:2] ** 2).sum()) / total if total else 1.0
    )
