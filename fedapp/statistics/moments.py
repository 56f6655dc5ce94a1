"""First moments of the classes, in few numbers (section 25.3).

The eigenvalues of a covariance do not move when labels are permuted or images turned by
right angles. Where the mean image of each class lies does.
"""

import numpy as np

from fedapp.config import SettingsError
from fedapp.statistics.rows import Floats, Ints, one_hot


def class_moments(features: Floats, labels: Ints, classes: int) -> Floats:
    """Return [(1/n) sum onehot(y) f', flattened; class frequencies], (C m + C,)."""
    held = one_hot(labels, classes)
    sums = held.T @ features / len(labels)
    return np.concatenate([sums.ravel(), held.mean(axis=0)])


def class_contrasts(features: Floats, labels: Ints, classes: int) -> Floats:
    """Return [cov(onehot(y), f), flattened; class frequencies - 1/C], (C m + C,).

    What all clients have in common, the mean feature, is taken out by each alone: a
    class counts by how its features differ from the client's own mean.
    """
    centred: Floats = features - features.mean(axis=0)
    found = class_moments(centred, labels, classes)
    found[-classes:] -= 1 / classes
    return found


def scaled_to(vector: Floats, norm: float) -> Floats:
    """Return ``vector`` with this norm; zeros stay."""
    length = float(np.linalg.norm(vector))
    return vector * (norm / length) if length > 0 else vector


def agree(sums: Floats, squares: Floats, count: int) -> tuple[Floats, Floats]:
    """Return mean and deviation over ``count`` clients of each number.

    ``sums`` and ``squares`` are the sums over clients of s and of its squares. What is
    the same everywhere, but for rounding of the float32 numbers that travel, has the
    deviation 1: it becomes 0, not noise.
    """
    mean = sums / count
    second = squares / count
    deviation = np.sqrt(np.maximum(second - mean**2, 0.0))
    return mean, np.where(deviation**2 > 1e-6 * second, deviation, 1.0)


def standardised(s: Floats, mean: Floats, deviation: Floats) -> Floats:
    """Return (s - mean) / deviation.

    Raises
    ------
    SettingsError
        If the constants are for statistics of another length.
    """
    if not s.shape == mean.shape == deviation.shape:
        raise SettingsError(
            f"the server's constants are for statistics of {len(mean)} numbers, this "
            f"client's has {len(s)}: conditional.length must be the same everywhere"
        )
    return (s - mean) / deviation
