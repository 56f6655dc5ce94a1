"""Does a client with a similar head make a better donor? (specification 23.9)

Matrices are K x K, targets in rows, donors in columns; the diagonal is a client's own
encoder. Nothing here says why a donor helps: correlations are all there is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedapp.hdc.heads import Array

Flags = NDArray[np.bool_]
Labels = Sequence[int]
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Donors:
    """How the most similar donors do against expected random ones.

    ``nearest`` has the place of each target's most similar donor; ``accuracy`` and
    ``random_accuracy`` are means over targets.
    """

    nearest: tuple[int, ...]
    accuracy: float
    random_accuracy: float

    @property
    def benefit(self) -> float:
        """What the nearest donor is better by than a random one."""
        return self.accuracy - self.random_accuracy


@dataclass(frozen=True)
class ByGroup:
    """Swaps within and between groups; None where there is no such swap.

    ``purity`` is the share of targets whose nearest donor is of their group,
    ``base_rate`` what a random donor would give. ``same`` and ``other`` are mean
    changes of accuracy against the own encoder.
    """

    purity: float
    base_rate: float
    same: float | None
    other: float | None


def gains(loss: Array) -> Array:
    """Return ``L_ii - L_ij``: positive where donor j's encoder helps target i."""
    return np.asarray(np.diag(loss)[:, None] - loss)


def beneficial(gain: Array) -> float:
    """Return the share of swaps that lower the loss; a gain of 0 does not."""
    return float(np.mean(off_diagonal(gain) > 0))


def spearman(first: Array, second: Array) -> float | None:
    """Return the rank correlation of two rows; None if one of them is constant."""
    # Imported here: it takes seconds.
    from scipy.stats import spearmanr

    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(spearmanr(first, second).statistic)


def spearman_by_target(first: Array, second: Array) -> list[float | None]:
    """Return, for each target, the rank correlation of two matrices over donors."""
    pairs = zip(off_diagonal(first), off_diagonal(second), strict=True)
    return [spearman(a, b) for a, b in pairs]


def auroc(scores: Array, positive: Flags) -> float | None:
    """Return the area under the ROC curve; None if all or none are positive."""
    from sklearn.metrics import roc_auc_score

    if positive.all() or not positive.any():
        return None
    return float(roc_auc_score(positive, scores))


def auroc_pooled(similarity: Array, gain: Array) -> float | None:
    """Return how well similarity tells swaps that help, all pairs together."""
    return auroc(off_diagonal(similarity).ravel(), off_diagonal(gain).ravel() > 0)


def auroc_by_target(similarity: Array, gain: Array) -> list[float | None]:
    """Return the same for each target over its donors."""
    pairs = zip(off_diagonal(similarity), off_diagonal(gain), strict=True)
    return [auroc(scores, gained > 0) for scores, gained in pairs]


def nearest_donors(similarity: Array, accuracy: Array) -> Donors:
    """Return how each target's most similar donor does; ties go to the first."""
    others = np.where(np.eye(len(similarity), dtype=bool), -np.inf, similarity)
    nearest = np.argmax(others, axis=1)
    return Donors(
        nearest=tuple(int(donor) for donor in nearest),
        accuracy=float(accuracy[np.arange(len(nearest)), nearest].mean()),
        random_accuracy=float(off_diagonal(accuracy).mean()),
    )


def by_group(nearest: Sequence[int], accuracy: Array, groups: Labels) -> ByGroup:
    """Return how swaps within and between ``groups`` differ."""
    label = np.asarray(groups)
    same = label[:, None] == label
    change = accuracy - np.diag(accuracy)[:, None]
    within, between = off_diagonal(same), off_diagonal(change)
    return ByGroup(
        purity=float(np.mean(label[list(nearest)] == label)),
        base_rate=float(within.mean()),
        same=float(between[within].mean()) if within.any() else None,
        other=float(between[~within].mean()) if not within.all() else None,
    )


def mean_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are there, None if there is none."""
    found = [value for value in values if value is not None]
    return float(np.mean(found)) if found else None


def off_diagonal(matrix: NDArray[Number]) -> NDArray[Number]:
    """Return a K x K matrix without its diagonal, K x (K - 1)."""
    count = len(matrix)
    return matrix[~np.eye(count, dtype=bool)].reshape(count, count - 1)
