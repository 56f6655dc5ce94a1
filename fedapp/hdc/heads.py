"""The geometry of classifier heads (specification 23.3 a to d).

A head is its weight matrix ``W`` (C x d, one row per class); biases are not used.
Heads of one federation start from the same values and order their classes alike, so
the columns of all heads live in one C-dimensional space. Its principal directions
and the coordinates of a head in them are all that grouping sees. Rotating or flipping
the directions changes coordinates but no inner product between descriptors: never
compare descriptors of two refreshes entry by entry.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Array = NDArray[np.float64]
Floats = NDArray[np.float32] | Array

RANK_FLOOR = 1e-10
"""Share of the largest eigenvalue below which a direction is rounding noise."""

NORM_FLOOR = 1e-12
"""Norm below which a projected head, or a mean of descriptors, has no direction."""


@dataclass(frozen=True)
class Subspace:
    """The leading directions of all heads.

    ``directions`` is C x rank with orthonormal columns, ``eigenvalues`` holds all C
    squared singular values of the heads side by side, descending. ``energy`` is the
    share of their sum that the directions keep. ``gap`` is the drop after the last
    one kept: where it is 0, the choice of directions is not unique.
    """

    directions: Array
    eigenvalues: Array
    rank: int
    energy: float
    gap: float


def gram(heads: Iterable[Floats]) -> Array:
    """Return the sum of ``W W^T`` over ``heads``, C x C in float64.

    One head is in memory at a time. Sums run in the order given; give clients in
    ascending order, so that the same heads always give the same bits.
    """
    total: Array | None = None
    shape: tuple[int, ...] = ()
    with threadpool_limits(limits=1):
        for head in heads:
            wide = np.asarray(head, dtype=np.float64)
            if total is None:
                shape = wide.shape
                if len(shape) != 2:
                    raise ValueError(f"a head must be classes x features; got {shape}")
                total = np.zeros((shape[0], shape[0]))
            if wide.shape != shape:
                raise ValueError(
                    f"heads must have one shape; got {shape} and {wide.shape}"
                )
            total += wide @ wide.T
    if total is None:
        raise ValueError("need at least one head; got none")
    return total


def principal_directions(gram: Array, *, energy: float, rank: int) -> Subspace:
    """Return the leading eigenvectors of ``gram`` that keep a share of its energy.

    They are the left singular vectors of the heads side by side, which need not be
    built. The number kept is the smallest that reaches ``energy``, at least 2 and at
    most 32; a positive ``rank`` is taken instead. Neither exceeds the numerical rank
    (which a fixed rank of C therefore asks for). A zero ``gram`` has no direction.
    Each direction points so that its largest entry, the first of equals, is positive.
    """
    if not 0 < energy <= 1:
        raise ValueError(f"energy must be in (0, 1]; got {energy}")
    if rank < 0:
        raise ValueError(f"rank must be positive, or 0 for the energy rule; got {rank}")
    if not np.isfinite(gram).all():
        raise ValueError("heads must be finite; their Gram matrix is not")
    with threadpool_limits(limits=1):
        ascending, vectors = np.linalg.eigh(gram)
    eigenvalues = np.maximum(ascending[::-1], 0.0)
    kept = min(
        rank or _rank_for_energy(eigenvalues, energy),
        int(np.sum(eigenvalues > RANK_FLOOR * eigenvalues[0])),
    )
    total = float(eigenvalues.sum())
    after = float(eigenvalues[kept]) if kept < len(eigenvalues) else 0.0
    return Subspace(
        directions=_point_up(vectors[:, ::-1][:, :kept]),
        eigenvalues=eigenvalues,
        rank=kept,
        energy=float(eigenvalues[:kept].sum()) / total if total > 0 else 0.0,
        gap=float(eigenvalues[kept - 1]) - after if kept > 0 else 0.0,
    )


def descriptor(head: Floats, directions: Array) -> Array | None:
    """Return the coordinates of ``head`` in ``directions`` as one unit vector.

    Its length is rank x d. None if the head has no part in these directions: such a
    client cannot be grouped.
    """
    # einsum rather than BLAS: the bits then cannot depend on the number of threads.
    projected = np.einsum("cr,cd->rd", directions, np.asarray(head, dtype=np.float64))
    norm = float(np.sqrt(np.sum(projected**2)))
    return None if norm < NORM_FLOOR else projected.ravel() / norm


def _rank_for_energy(eigenvalues: Array, energy: float) -> int:
    cumulative = np.cumsum(eigenvalues)
    # The slack keeps a share that equals the threshold from failing by one rounding.
    reached = cumulative >= energy * cumulative[-1] * (1 - 1e-12)
    return max(2, min(int(np.argmax(reached)) + 1, 32))


def _point_up(vectors: Array) -> Array:
    size = np.abs(vectors)
    # Entries equal up to rounding count as equal, so that rounding picks no sign.
    largest = np.argmax(size >= size.max(axis=0, initial=0.0) * (1 - 1e-8), axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return np.ascontiguousarray(vectors * signs)
