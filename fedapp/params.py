"""Arithmetic on named tensors. Tensors pair by name, never by position."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

Params = Mapping[str, Tensor]
"""Tensors by state-dict name."""

Payload = Mapping[str, Params]
"""What travels in one message, is remembered, or is kept: named ``Params``."""


def tree_map(function: Callable[..., Tensor], *trees: Params) -> dict[str, Tensor]:
    """Apply ``function`` to the tensors of each name; refuse trees that differ."""
    names = trees[0].keys()
    for tree in trees[1:]:
        if tree.keys() != names:
            odd = sorted(names ^ tree.keys())
            raise ValueError(
                "trees must have the same tensor names; these are not in both: "
                + ", ".join(odd[:5])
            )
    return {name: function(*(tree[name] for tree in trees)) for name in names}


def zeros_like(tree: Params) -> dict[str, Tensor]:
    """Return zeros with the shapes and dtypes of ``tree``."""
    return tree_map(torch.zeros_like, tree)


def clone(tree: Params) -> dict[str, Tensor]:
    """Return a copy that shares no memory with ``tree``."""
    return tree_map(lambda leaf: leaf.detach().clone(), tree)


def subtract(left: Params, right: Params) -> dict[str, Tensor]:
    """Return ``left - right``."""
    return tree_map(torch.sub, left, right)


def add_scaled(tree: Params, scale: float, other: Params) -> dict[str, Tensor]:
    """Return ``tree + scale * other``; integer tensors are taken from ``tree``."""

    def add(leaf: Tensor, step: Tensor) -> Tensor:
        return leaf + scale * step if leaf.is_floating_point() else leaf

    return tree_map(add, tree, other)


def select(tree: Params, prefix: str) -> dict[str, Tensor]:
    """Return the tensors under ``prefix.``, with the prefix taken off their names."""
    start = prefix + "."
    return {
        name[len(start) :]: leaf
        for name, leaf in tree.items()
        if name.startswith(start)
    }


def join(**parts: Params) -> dict[str, Tensor]:
    """Return one tree of all ``parts``, each name prefixed by its part's."""
    return {
        f"{part}.{name}": leaf
        for part, tree in parts.items()
        for name, leaf in tree.items()
    }


def num_bytes(payload: Payload) -> int:
    """Return the size of all tensors in ``payload``, in bytes."""
    return sum(
        leaf.numel() * leaf.element_size()
        for tree in payload.values()
        for leaf in tree.values()
    )


def first_non_finite(payload: Payload) -> str | None:
    """Return ``payload/tensor`` of the first NaN or infinity, or None."""
    for key, tree in payload.items():
        for name, leaf in tree.items():
            if leaf.is_floating_point() and not bool(torch.isfinite(leaf).all()):
                return f"{key}/{name}"
    return None


class WeightedMean:
    """A running weighted mean of trees, one tree in memory at a time.

    Sums run in float64 and in the order of ``add``, so the same inputs in the same
    order give the same bits. Float buffers are averaged like parameters. Integer
    tensors (batch counters) are not averaged: the largest value is kept.
    """

    def __init__(self) -> None:
        self.total = 0.0
        self._sums: dict[str, Tensor] = {}
        self._dtypes: dict[str, torch.dtype] = {}

    def add(self, tree: Params, weight: float) -> None:
        """Add ``tree`` with a weight of at least 0, in any unit."""
        if not 0 <= weight < float("inf"):
            raise ValueError(f"a weight must be finite and at least 0; got {weight}")
        if weight == 0:
            return
        if not self._sums:
            self._dtypes = {name: leaf.dtype for name, leaf in tree.items()}
            self._sums = tree_map(
                lambda leaf: (
                    leaf.double() * weight if leaf.is_floating_point() else leaf.clone()
                ),
                tree,
            )
        else:

            def accumulate(total: Tensor, leaf: Tensor) -> Tensor:
                if leaf.is_floating_point():
                    return total.add_(leaf.double(), alpha=weight)
                return torch.maximum(total, leaf)

            self._sums = tree_map(accumulate, self._sums, tree)
        self.total += weight

    def scale(self, factor: float) -> None:
        """Multiply the weights of all trees so far."""
        self.total *= factor
        for leaf in self._sums.values():
            if leaf.is_floating_point():
                leaf.mul_(factor)

    def value(self) -> dict[str, Tensor]:
        """Return the mean, in the dtypes of the first tree added."""
        if self.total <= 0:
            raise ValueError("a mean needs at least one tree with a positive weight")
        return {
            name: (
                (total / self.total).to(self._dtypes[name])
                if total.is_floating_point()
                else total
            )
            for name, total in self._sums.items()
        }


def weighted_mean(
    trees: Sequence[Params], weights: Sequence[float]
) -> dict[str, Tensor]:
    """Return the mean of ``trees``, each in proportion to its weight.

    See ``WeightedMean`` for precision, order and integer tensors.
    """
    mean = WeightedMean()
    for tree, weight in zip(trees, weights, strict=True):
        mean.add(tree, weight)
    return mean.value()
