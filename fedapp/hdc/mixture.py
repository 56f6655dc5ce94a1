"""Personal encoders as mixtures of group means (specification 23.3 i, 23.5, 23.6).

Encoders come one at a time and prototypes are sums, so memory holds one encoder per
group, never one per client. A label of -1 marks a client in no group: it enters no
prototype. So does a count of 0.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from fedapp.hdc.grouping import Labels
from fedapp.hdc.heads import Array
from fedapp.params import Params, WeightedMean


def group_weights(memberships: Array, labels: Labels, counts: Array | Labels) -> Array:
    """Return the n x G weight of each group's prototype for each client.

    They are the memberships, except that a group without a member that counts has no
    prototype: its weight goes to the others in proportion. A row with no weight left,
    such as the zeros of a client without descriptor, weighs groups by their counts,
    which gives the population prototype.
    """
    totals = _totals(labels, counts, memberships.shape[1])
    if totals.sum() <= 0:
        raise ValueError("no group has a member with a positive count")
    kept = np.where(totals > 0, memberships, 0.0)
    kept = np.where(kept.sum(axis=1, keepdims=True) > 0, kept, totals)
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))


def mixing_matrix(
    memberships: Array, labels: Labels, counts: Array | Labels, *, mix: float
) -> Array:
    """Return the n x n matrix M with personal encoder k = sum over j of M_kj theta_j.

    ``M_kj = mix p_kg n_j / N_g + (1 - mix) [j = k]`` where g is the group of j; rows
    sum to 1. The dense form of ``group_prototypes`` and ``mix_encoders``, for logs.
    """
    weights = group_weights(memberships, labels, counts)
    totals = _totals(labels, counts, memberships.shape[1])
    grouped = (labels >= 0) & (np.asarray(counts) > 0)
    shares = np.zeros(len(labels))
    shares[grouped] = np.asarray(counts)[grouped] / totals[labels[grouped]]
    return np.asarray(
        mix * weights[:, labels] * shares + (1 - mix) * np.eye(len(labels))
    )


def group_prototypes(
    rows: Iterable[tuple[int, float, Params]], groups: int
) -> list[Params | None]:
    """Return the mean encoder of each group, None for a group without a member.

    ``rows`` are (label, example count, encoder), one encoder in memory at a time.
    Sums run in the order given: give clients in ascending order.
    """
    means = [WeightedMean() for _ in range(groups)]
    for label, count, encoder in rows:
        if label >= 0:
            means[label].add(encoder, count)
    return [mean.value() if mean.total > 0 else None for mean in means]


def population_prototype(rows: Iterable[tuple[int, float, Params]]) -> Params:
    """Return the mean encoder of all clients in some group, as if there were one."""
    (prototype,) = group_prototypes(((min(g, 0), n, tree) for g, n, tree in rows), 1)
    if prototype is None:
        raise ValueError("no group has a member with a positive count")
    return prototype


def mix_encoders(
    prototypes: Sequence[Params | None],
    weights: Array,
    own: Params | None,
    *,
    mix: float,
) -> Params:
    """Return ``mix * sum over g of weights_g prototype_g + (1 - mix) * own``.

    ``weights`` is one row of ``group_weights``. Sums run in float64; integer buffers
    take the largest value among the trees of positive weight. With a ``mix`` of 1 the
    ``own`` encoder may be None.
    """
    if not 0 <= mix <= 1:
        raise ValueError(f"mix must be in [0, 1]; got {mix}")
    mean = WeightedMean()
    for prototype, weight in zip(prototypes, weights, strict=True):
        if prototype is not None:
            mean.add(prototype, mix * float(weight))
        elif weight > 0:
            raise ValueError("a group without a prototype must have weight 0")
    if own is not None:
        mean.add(own, 1 - mix)
    elif mix < 1:
        raise ValueError(f"a mix of {mix} needs the client's own encoder; got none")
    return mean.value()


def to_second_moments(tree: Params) -> dict[str, Tensor]:
    """Return ``tree`` with each BatchNorm variance replaced by ``var + mean^2``.

    Second moments, unlike variances, mix linearly: mixing such trees and going back
    gives the variance of the mixture, ``sum_j M_j (var_j + mean_j^2) - mean^2``. Means
    and moments are float64, since the way back subtracts numbers of similar size.
    """
    result = dict(tree)
    for var, mean in _moment_names(tree):
        result[mean] = tree[mean].double()
        result[var] = tree[var].double() + result[mean] ** 2
    return result


def from_second_moments(tree: Params, like: Params) -> dict[str, Tensor]:
    """Undo ``to_second_moments``, in the dtypes of ``like``, negatives made 0."""
    result = dict(tree)
    for var, mean in _moment_names(tree):
        variance = torch.clamp(tree[var] - tree[mean] ** 2, min=0.0)
        result[var] = variance.to(like[var].dtype)
        result[mean] = tree[mean].to(like[mean].dtype)
    return result


def _totals(labels: Labels, counts: Array | Labels, groups: int) -> Array:
    inside = labels >= 0
    weights = np.asarray(counts, dtype=np.float64)[inside]
    return np.asarray(np.bincount(labels[inside], weights=weights, minlength=groups))


def _moment_names(tree: Params) -> list[tuple[str, str]]:
    pairs = []
    for name in tree:
        prefix, dot, last = name.rpartition(".")
        if last == "running_var":
            mean = f"{prefix}{dot}running_mean"
            if mean not in tree:
                raise ValueError(f"{name} has no {mean} beside it")
            pairs.append((name, mean))
    return pairs
