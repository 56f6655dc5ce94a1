"""Training on pseudo-labels: found once a round, added to the loss of each batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor, nn

from fedapp.algorithm import LocalTask, Penalty, seeded
from fedapp.data.samples import Samples
from fedapp.embeddings import embedded
from fedapp.prototypes import Bank, cosine_distances
from fedapp.pseudo_labels import Thresholds, pseudo_labels, thresholds
from fedapp.terms import Term

ANY = 3.0
"""A threshold that no cosine distance exceeds."""


@dataclass(frozen=True)
class Pseudo:
    """Accepted unlabelled samples with their labels, out of ``unlabelled``.

    ``right`` of the labels are the hidden ones. ``own`` are the client's thresholds, if
    it has any.
    """

    samples: Samples
    unlabelled: int
    right: int
    own: Thresholds | None

    def metrics(self, *, diagnostics: bool) -> dict[str, float]:
        """Return what a reply says of them."""
        found: dict[str, float] = {
            "unlabelled": self.unlabelled,
            "accepted": len(self.samples),
        }
        if self.own is not None:
            found["threshold"] = self.own.client
        if diagnostics:
            found["accepted-right"] = self.right
        return found


def find_pseudo(
    task: LocalTask,
    bank: Bank,
    *,
    rule: str,
    quantile: float,
    fixed: float,
    before: Thresholds | None,
) -> Pseudo:
    """Return the unlabelled samples that ``task.model``, as it is, gives labels.

    ``rule``: ``auto`` accepts by the client's own thresholds (``before``, moved towards
    those of its labelled samples now) or by the server's, ``fixed`` by one number,
    ``all`` whatever is nearest; ``oracle`` takes the hidden labels.
    """
    samples = task.unlabelled
    assert samples is not None
    own = before
    if rule == "auto":
        found = _distances(task, task.labelled, bank)
        fresh = thresholds(found, task.labelled.labels, quantile=quantile)
        if fresh is not None:
            own = fresh if before is None else before.smoothed(fresh)
    limits = own or Thresholds.same(float(task.scalars["threshold"]), task.classes)
    if rule == "all":
        limits = Thresholds.same(ANY, task.classes)
    elif rule == "fixed":
        limits = Thresholds.same(fixed, task.classes)
    labels, taken = pseudo_labels(_distances(task, samples, bank), limits)
    if rule == "oracle":
        labels, taken = samples.labels, torch.ones_like(samples.labels).bool()
    hidden = samples.labels[taken]
    accepted = Samples(samples.images[taken], labels[taken], samples.view)
    right = int((accepted.labels == hidden).sum())
    return Pseudo(accepted, len(samples), right, own if rule == "auto" else None)


def _distances(task: LocalTask, samples: Samples, bank: Bank) -> Tensor:
    batches = embedded(task.model.encoder, samples)
    return torch.cat([cosine_distances(features, bank) for features, _ in batches])


def with_pseudo(
    penalty: Penalty | None, task: LocalTask, pseudo: Pseudo, apart: Term
) -> Penalty | None:
    """Return a penalty that adds the loss of accepted samples, weighted by the server.

    Each batch of labelled samples comes with a part of the accepted ones: an epoch
    passes once over both. Without weight or samples the penalty is what it was.
    """
    weight = float(task.scalars["pseudo-weight"])
    alone = len(pseudo.samples) == 1 and has_batch_norm(task.model)
    if weight == 0 or len(pseudo.samples) == 0 or alone:
        return penalty
    batches = _batches(task, pseudo.samples)

    def both(features: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        images, guessed = next(batches)
        theirs = task.model.encoder(images)
        loss = task.loss(task.model.head(theirs), guessed)
        if apart.weight > 0:
            loss = loss + apart.weight * apart.loss(theirs, guessed)
        rest = penalty(features, logits, labels) if penalty is not None else 0.0
        return weight * loss + rest

    return both


def has_batch_norm(model: nn.Module) -> bool:
    """Return whether a batch of one sample cannot be trained on."""
    kind = nn.modules.batchnorm._BatchNorm
    return any(isinstance(module, kind) for module in model.modules())


def _batches(task: LocalTask, samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield shuffled parts of ``samples`` for ever; none is a single one of several."""
    generator = seeded(task.seed, task.client, task.round, 1)
    parts = ceil(task.num_examples / task.batch_size)
    size = max(2, ceil(len(samples) / parts))
    while True:
        order = torch.randperm(len(samples), generator=generator)
        chunks = list(order.to(samples.labels.device).split(size))
        if len(chunks) > 1 and len(chunks[-1]) == 1:
            chunks[-2:] = [torch.cat(chunks[-2:])]
        for index in chunks:
            yield samples.batch(index, generator)
