"""Weighted terms beside the loss on labels, and how hard each pulls on embeddings."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fedapp.algorithm import Loss, Penalty


class Term(NamedTuple):
    """A loss on features (n, d) and labels (n,), and its weight in the objective."""

    name: str
    weight: float
    loss: Callable[[Tensor, Tensor], Tensor]


def penalty_of(terms: Sequence[Term]) -> Penalty | None:
    """Return the weighted sum of ``terms``; None if no weight is above zero.

    A term without weight is not computed: what is left is bit for bit the method
    without it.
    """
    active = [term for term in terms if term.weight > 0]
    if not active:
        return None

    def penalty(features: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        del logits
        parts = [term.weight * term.loss(features, labels) for term in active]
        return torch.stack(parts).sum()

    return penalty


class GradientProbe:
    """Measures the gradient of each term, and of the loss, by embeddings.

    It is the norm for one sample, averaged over samples and over the first ``batches``
    batches that it sees, before weights: what would move the embeddings at the start
    of a round. It changes nothing that is trained.
    """

    def __init__(
        self, head: nn.Module, loss: Loss, terms: Sequence[Term], *, batches: int = 8
    ) -> None:
        self._head = head
        self._loss = loss
        self._terms = terms
        self._left = batches
        self._sums: dict[str, float] = {}
        self._samples = 0

    def watching(self, penalty: Penalty | None) -> Penalty:
        """Return ``penalty`` (None: zero), which now also measures."""

        def measured(features: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
            if self._left > 0:
                self._left -= 1
                self._measure(features.detach().float(), labels)
            if penalty is None:
                return features.new_zeros(())
            return penalty(features, logits, labels)

        return measured

    def _measure(self, features: Tensor, labels: Tensor) -> None:
        features.requires_grad_()
        losses = {"entropy": self._loss(self._head(features), labels)}
        losses |= {term.name: term.loss(features, labels) for term in self._terms}
        for name, value in losses.items():
            (pull,) = torch.autograd.grad(value, features, allow_unused=True)
            # The loss is a mean over samples, so their norms add up to their mean.
            norm = 0.0 if pull is None else float(pull.norm(dim=1).sum())
            self._sums[name] = self._sums.get(name, 0.0) + norm * len(labels)
        self._samples += len(labels)

    def metrics(self, *names: str) -> dict[str, float]:
        """Return ``<name>-gradient`` for the loss (``entropy``) and each term."""
        total = max(1, self._samples)
        return {f"{name}-gradient": self._sums.get(name, 0.0) / total for name in names}
