"""Mixing an old and a new model weight by weight, by weights that are learned."""

from collections.abc import Sequence

import numpy as np
import torch

from fedapp.algorithm import LocalTask
from fedapp.data.samples import Samples
from fedapp.params import Params, tree_map

LOSSES = 10
SPREAD = 0.1
"""Learning ends when the last ``LOSSES`` losses deviate less than this."""


def mix(old: Params, new: Params, weights: Params) -> Params:
    """Return ``old + (new - old) * weights``; exactly ``new`` where a weight is 1."""
    return tree_map(torch.lerp, old, new, weights)


def next_weights(
    weights: Params, gradient: Params, old: Params, new: Params, *, lr: float
) -> Params:
    """Return weights after a step downhill, clipped to [0, 1].

    ``gradient`` is of the loss with respect to the mixture.
    """
    return tree_map(
        lambda w, g, o, n: (w - lr * g * (n - o)).clamp(0, 1),
        weights,
        gradient,
        old,
        new,
    )


def settled(losses: Sequence[float]) -> bool:
    """Return whether the newest losses hardly differ any more."""
    return len(losses) >= LOSSES and float(np.std(losses[-LOSSES:])) < SPREAD


def learn(
    task: LocalTask,
    old: Params,
    weights: Params,
    samples: Samples,
    *,
    lr: float,
    passes: int,
) -> Params:
    """Return weights learned on ``samples``; leave the mixture in ``task.model``.

    The model comes with the new parameters. Learning ends after ``passes``, when the
    losses have settled, or before the first step that is not finite.
    """
    leaves = dict(task.model.named_parameters())
    for name, leaf in leaves.items():
        leaf.requires_grad_(name in old)
    mixed = {name: leaves[name] for name in old}
    new = {name: leaf.detach().clone() for name, leaf in mixed.items()}
    _put(mixed, mix(old, new, weights))
    losses: list[float] = []
    while len(losses) < passes and not settled(losses):
        total = 0.0
        for images, labels in samples.in_order(task.batch_size):
            loss = task.loss(task.model(images), labels)
            found = torch.autograd.grad(loss, list(mixed.values()))
            gradient = dict(zip(mixed, found, strict=True))
            after = next_weights(weights, gradient, old, new, lr=lr)
            finite = [torch.isfinite(x).all() for x in (loss, *after.values())]
            if not all(finite):
                return weights
            weights = after
            _put(mixed, mix(old, new, weights))
            total += loss.item() * len(labels)
        losses.append(total / len(samples))
    return weights


@torch.no_grad()
def _put(leaves: Params, values: Params) -> None:
    for name, leaf in leaves.items():
        leaf.copy_(values[name])
