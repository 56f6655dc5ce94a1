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
    """How much closer than chance the nearest donor is: accuracy, and same group.

    ``nearest`` has the place of each target's most similar donor. ``benefit`` is its
    accuracy minus that of an expected random donor, mean over targets. ``accuracy``
    and ``random_accuracy`` are the two means.
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
    return float(np.mean(_off_diagonal(gain) > 0))


def spearman(first: Array, second: Array) -> float | None:
    """Return the rank correlation of two rows; None if one of them is constant."""
    # Imported here: it takes seconds.
    from scipy.stats import spearmanr

    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(spearmanr(first, second).statistic)


def spearman_by_target(first: Array, second: Array) -> list[float | None]:
    """Return, for each target, the rank correlation of two matrices over donors."""
    pairs = zip(_off_diagonal(first), _off_diagonal(second), strict=True)
    return [spearman(a, b) for a, b in pairs]


def auroc(scores: Array, positive: Flags) -> float | None:
    """Return the area under the ROC curve; None if all or none are positive."""
    from sklearn.metrics import roc_auc_score

    if positive.all() or not positive.any():
        return None
    return float(roc_auc_score(positive, scores))


def auroc_pooled(similarity: Array, gain: Array) -> float | None:
    """Return how well similarity tells swaps that help, all pairs together."""
    return auroc(_off_diagonal(similarity).ravel(), _off_diagonal(gain).ravel() > 0)


def auroc_by_target(similarity: Array, gain: Array) -> list[float | None]:
    """Return the same for each target over its donors."""
    pairs = zip(_off_diagonal(similarity), _off_diagonal(gain), strict=True)
    return [auroc(scores, gained > 0) for scores, gained in pairs]


def nearest_donors(similarity: Array, accuracy: Array) -> Donors:
    """Return how each target's most similar donor does; ties go to the first."""
    others = np.where(np.eye(len(similarity), dtype=bool), -np.inf, similarity)
    nearest = np.argmax(others, axis=1)
    return Donors(
        nearest=tuple(int(donor) for donor in nearest),
        accuracy=float(accuracy[np.arange(len(nearest)), nearest].mean()),
        random_accuracy=float(_off_diagonal(accuracy).mean()),
    )


def by_group(nearest: Sequence[int], accuracy: Array, groups: Labels) -> ByGroup:
    """Return how swaps within and between ``groups`` differ."""
    label = np.asarray(groups)
    same = label[:, None] == label
    change = accuracy - np.diag(accuracy)[:, None]
    within, between = _off_diagonal(same), _off_diagonal(change)
    return ByGroup(
        purity=float(np.mean(label[list(nearest)] == label)),
        base_rate=float(within.mean()),
        same=float(between[within].mean()) if within.any() else None,
        other=float(between[~within].mean()) if not within.all() else None,
    )


def jaccard(classes: Sequence[Sequence[int]]) -> Array:
    """Return the share that two clients' class sets have in common."""
    sets = [set(own) for own in classes]
    return np.array([[_share(a, b) for b in sets] for a in sets])


def _share(first: set[int], second: set[int]) -> float:
    either = first | second
    return len(first & second) / len(either) if either else 1.0


def cosine(histograms: Sequence[Sequence[int]]) -> Array:
    """Return the cosines between label histograms; 0 for an empty one."""
    rows = np.asarray(histograms, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    units = rows / np.where(norms > 0, norms, 1.0)
    return np.asarray(np.einsum("nc,mc->nm", units, units))


def partial_correlation(ab: float, ac: float, bc: float) -> float | None:
    """Return the correlation of a and b with c held fixed, from the three of them.

    None if c explains one of them fully.
    """
    rest = (1 - ac**2) * (1 - bc**2)
    return (ab - ac * bc) / rest**0.5 if rest > 1e-12 else None


@dataclass(frozen=True)
class Overlap:
    """Label overlap as another reading of similarity: three rank correlations of
    similarity, gain and overlap, and the first with the overlap held fixed.

    None where a constant row leaves nothing to correlate.
    """

    similarity_gain: float | None
    similarity_overlap: float | None
    gain_overlap: float | None

    @property
    def partial(self) -> float | None:
        """Similarity and gain with the overlap held fixed."""
        found = self.similarity_gain, self.similarity_overlap, self.gain_overlap
        if None in found:
            return None
        return partial_correlation(*(value for value in found if value is not None))


def confound(similarity: Array, gain: Array, overlap: Array) -> Overlap:
    """Return the three correlations, each the mean over targets that have them all."""
    triples = zip(
        spearman_by_target(similarity, gain),
        spearman_by_target(similarity, overlap),
        spearman_by_target(gain, overlap),
        strict=True,
    )
    whole = [triple for triple in triples if None not in triple]
    if not whole:
        return Overlap(None, None, None)
    return Overlap(*(mean_known(column) for column in zip(*whole, strict=True)))


def confound_pooled(similarity: Array, gain: Array, overlap: Array) -> Overlap:
    """Return the three correlations over all pairs together."""
    s, g, o = (_off_diagonal(matrix).ravel() for matrix in (similarity, gain, overlap))
    return Overlap(spearman(s, g), spearman(s, o), spearman(g, o))


def mean_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are there, None if there is none."""
    found = [value for value in values if value is not None]
    return float(np.mean(found)) if found else None


def _off_diagonal(matrix: NDArray[Number]) -> NDArray[Number]:
    """Return a K x K matrix without its diagonal, K x (K - 1)."""
    count = len(matrix)
    return matrix[~np.eye(count, dtype=bool)].reshape(count, count - 1)
