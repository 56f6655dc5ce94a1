"""Second-order statistics of rows: leading variances, and those along directions."""

from typing import Literal

import numpy as np

from fedapp.statistics.rows import Floats

Transform = Literal["log", "raw", "ratio"]


def leading_variances(rows: Floats, length: int) -> Floats:
    """Return the ``length`` largest eigenvalues of the covariance of ``rows`` (n, q).

    The covariance divides by n, so that one row gives zeros; there are at most
    min(n - 1, q) that are not 0, and zeros fill up. Of the two matrices with these
    eigenvalues, (q, q) and (n, n), the smaller one is decomposed.
    """
    centred = rows - rows.mean(axis=0)
    count, width = rows.shape
    wide = count < width
    matrix = (centred @ centred.T if wide else centred.T @ centred) / count
    found = np.linalg.eigvalsh(matrix)[::-1]
    # Centring takes one dimension; what is left of it is rounding.
    found = np.maximum(found[: min(count - 1, width, length)], 0.0)
    return np.pad(found, (0, length - len(found)))


def variances_along(rows: Floats, directions: Floats) -> Floats:
    """Return r' S r for each column r of ``directions`` (q, l), S the covariance."""
    projected: Floats = (rows - rows.mean(axis=0)) @ directions
    return (projected**2).mean(axis=0)


def transformed(variances: Floats, transform: Transform) -> Floats:
    """Return log(1 + v), v itself, or each share of the sum (zeros of a sum of 0)."""
    if transform == "log":
        return np.log1p(variances)
    if transform == "ratio":
        total = variances.sum()
        return variances / total if total > 0 else np.zeros_like(variances)
    return variances
