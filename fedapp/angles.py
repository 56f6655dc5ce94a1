"""Angles between subspaces of client data, and clusters of clients by them (PACFL).

Vahidian et al. 2023, arXiv 2209.10526.
"""

from collections.abc import Iterable
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

Proximity = Literal["min_elem_abs", "min_elem", "principal_min"]
Linkage = Literal["average", "weighted", "complete", "single"]

RIGHT_ANGLE = 90.0


def leading_directions(columns: Tensor, count: int) -> Tensor:
    """Return the first ``count`` left singular vectors of a D x n matrix, as columns.

    They come from the Gram matrix of the smaller side. Fewer are returned where the
    rank is smaller: the others would be arbitrary.
    """
    wide = columns.shape[1] >= columns.shape[0]
    gram = columns @ columns.T if wide else columns.T @ columns
    values, vectors = torch.linalg.eigh(gram)
    values, vectors = values.flip(0)[:count], vectors.flip(1)[:, :count]
    # The Gram matrix has squared singular values, exact to about eps times the largest.
    floor = max(columns.shape) * torch.finfo(columns.dtype).eps * values[0]
    vectors = vectors[:, values > floor]
    if wide:
        return vectors
    vectors = columns @ vectors
    return vectors / vectors.norm(dim=0)


def signature(pixels: Tensor, labels: Tensor, per_class: int) -> Tensor:
    """Return the leading directions of each class present, side by side.

    ``pixels`` has one image in a row, in float64; classes are taken in order.
    """
    classes: list[int] = labels.unique().tolist()
    parts = [leading_directions(pixels[labels == c].T, per_class) for c in classes]
    return torch.cat(parts, dim=1)


def to_compare(vectors: Array, kind: Proximity) -> Array:
    """Return what ``angle`` compares: a signature, or an orthonormal basis of it."""
    if kind != "principal_min" or vectors.shape[1] == 0:
        return vectors
    # Imported here: it takes long, in every worker.
    from scipy.linalg import orth

    return orth(vectors)


def angle(one: Array, other: Array, kind: Proximity) -> float:
    """Return how close two clients are, in degrees; 0 is closest.

    ``min_elem``: the smallest angle between two vectors, as in the authors' code.
    ``min_elem_abs``: the same, whatever the arbitrary signs of singular vectors.
    ``principal_min``: the first principal angle between two spans. A signature without
    vectors is at a right angle to all.
    """
    if one.shape[0] != other.shape[0]:
        raise ValueError(
            f"signatures of images with {one.shape[0]} and {other.shape[0]} values: "
            "all clients need images of one size"
        )
    if one.shape[1] == 0 or other.shape[1] == 0:
        return RIGHT_ANGLE
    cosines = one.T @ other
    if kind == "principal_min":
        cosine = np.linalg.norm(cosines, 2)
    else:
        cosine = (np.abs(cosines) if kind == "min_elem_abs" else cosines).max()
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


def angles(signatures: Iterable[Array], kind: Proximity) -> Array:
    """Return the angles between all signatures: symmetric, zeros on the diagonal."""
    rows = [to_compare(vectors, kind) for vectors in signatures]
    found = np.zeros((len(rows), len(rows)))
    for row, one in enumerate(rows):
        for column in range(row):
            found[row, column] = angle(one, rows[column], kind)
    return found + found.T


def cluster(distances: Array, linkage: Linkage, *, beta: float, count: int) -> Labels:
    """Return the cluster of each client by hierarchical clustering.

    Clusters closer than ``beta`` or as close are merged; or, if ``count`` is positive,
    the closest ones until so many are left. They are numbered by their first client.
    """
    clients = len(distances)
    if clients == 1:
        return np.zeros(1, np.int64)
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    tree = hierarchy.linkage(squareform(distances), method=linkage)
    if count:
        labels = hierarchy.cut_tree(tree, n_clusters=min(count, clients))[:, 0]
    else:
        labels = hierarchy.fcluster(tree, beta, criterion="distance")
    return by_first_member(labels)


def by_first_member(labels: NDArray[np.integer]) -> Labels:
    """Return labels renumbered 0, 1, .. in the order in which they first occur."""
    _, first, index = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[index].astype(np.int64)


def nearest_cluster(to_members: Array, labels: Labels) -> tuple[int, float]:
    """Return the cluster whose members are nearest on average, and that mean angle.

    Ties go to the smaller number.
    """
    means = [to_members[labels == own].mean() for own in range(labels.max() + 1)]
    nearest = int(np.argmin(means))
    return nearest, float(means[nearest])
