"""Label overlap, the other reading of similar heads (specification 23.9).

Clients with the same classes have similar heads. What a similar head says of a donor
beyond that is what is left with the overlap held fixed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedapp.hdc.heads import Array
from fedapp.hdc.swap import mean_known, off_diagonal, spearman, spearman_by_target


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
    s, g, o = (off_diagonal(matrix).ravel() for matrix in (similarity, gain, overlap))
    return Overlap(spearman(s, g), spearman(s, o), spearman(g, o))
