"""How much clients belong to each of several models, by the models' losses on them.

FedSoft (Ruan and Joe-Wong 2022, arXiv 2112.06053) and FedCE (Cai et al. 2023).
"""

from collections.abc import Sequence
from math import exp, inf

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fedapp.algorithm import Predictor
from fedapp.data.samples import Samples
from fedapp.params import Params, WeightedMean, weighted_mean

Array = NDArray[np.float64]


@torch.no_grad()
def batch_losses(
    predictor: Predictor, samples: Samples, batch_size: int
) -> list[Tensor]:
    """Return the cross-entropy of every sample, batch by batch and in order.

    A predictor that is a module must be in evaluation mode.
    """
    return [
        functional.cross_entropy(predictor(images).float(), labels, reduction="none")
        .double()
        .cpu()
        for images, labels in samples.in_order(batch_size)
    ]


def importance(losses: Tensor, floor: float) -> Tensor:
    """Return u (S,): the share of samples that each model fits best.

    It is at least ``floor``. ``losses`` is (n, S); ties go to the smaller number.
    """
    best = torch.bincount(losses.argmin(dim=1), minlength=losses.shape[1])
    return (best / len(losses)).clamp(min=floor)


def relative_importance(u: Array, examples: NDArray[np.int64]) -> Array:
    """Return v (K, S): ``u_ks n_k`` in shares of its sum over clients."""
    mass = u * examples[:, None]
    total = mass.sum(axis=0)
    return np.divide(mass, total, out=np.zeros_like(mass), where=total > 0)


def drawn(chances: Array, count: int, rng: np.random.Generator) -> list[int]:
    """Return ``count`` different indices, drawn with ``chances``, sorted.

    All with a positive chance, if there are not more.
    """
    possible = np.flatnonzero(chances > 0)
    if len(possible) <= count:
        return possible.tolist()
    p = chances[possible] / chances[possible].sum()
    chosen = rng.choice(possible, size=count, replace=False, p=p)
    return sorted(int(index) for index in chosen)


def blend(models: Sequence[Params], weights: Sequence[float]) -> Params:
    """Return the models' mean by ``weights``; by equal ones if all are 0."""
    if not any(weights):
        weights = [1.0] * len(models)
    return weighted_mean(models, weights)


def association(losses: Tensor, delta: float) -> tuple[int, Tensor]:
    """Return the best model and how much each of them gains in the client's history.

    ``losses`` (S, batches) has mean losses of batches. The best (smallest mean, ties to
    the smaller number) gains 1, the others ``exp(-delta d)`` at a distance d of losses.
    """
    best = int(losses.mean(dim=1).argmin())
    gains = torch.exp(-delta * (losses - losses[best]).norm(dim=1))
    gains[best] = 1.0
    return best, gains


class SoftmaxMean:
    """A running mean of trees with weights ``exp(score)``, none of which overflows."""

    def __init__(self) -> None:
        self._mean = WeightedMean()
        self._top = -inf

    def add(self, tree: Params, score: float) -> None:
        """Add ``tree``; the largest score so far has weight 1."""
        if score > self._top:
            self._mean.scale(exp(self._top - score))
            self._top = score
        self._mean.add(tree, exp(score - self._top))

    def value(self, otherwise: Params) -> Params:
        """Return the mean, or ``otherwise`` if nothing was added."""
        return self._mean.value() if self._mean.total > 0 else otherwise
