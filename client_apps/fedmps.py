"""FedMPS, client side (Yang et al. 2025, doi 10.1109/TNNLS.2025.3611832)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from client_apps.fedproto import own_model
from fedapp.algorithm import (
    LocalAlgorithm,
    LocalTask,
    Memory,
    Penalty,
    Predictor,
    Update,
    local_sgd,
)
from fedapp.contrast import contrast_with_bank, distillation
from fedapp.early import watched
from fedapp.embeddings import embedded
from fedapp.models import load, state_of
from fedapp.params import Payload
from fedapp.prototype_parts import from_parts, to_parts
from fedapp.prototypes import (
    Bank,
    as_logits,
    class_means,
    class_sums,
    squared_distances,
)


@dataclass(frozen=True)
class LocalFedMPS(LocalAlgorithm):
    """SGD on cross-entropy, contrast at two layers, and the server's soft labels.

    Prototypes are means of normalised features by a clean pass; the public code takes
    them from the last training epoch.
    """

    high_weight: Annotated[float, Field(ge=0, description="contrast of embeddings")]
    low_weight: Annotated[float, Field(ge=0, description="contrast of early features")]
    soft_weight: Annotated[float, Field(ge=0, description="distillation, soft labels")]
    temperature: Annotated[float, Field(gt=0, description="of the contrast")]
    soft_temperature: Annotated[float, Field(gt=0, description="of the distillation")]

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        load(task.model, own_model(task, memory))
        with watched(task.model) as seen:
            local_sgd(task, penalty=self._penalty(task, seen))
            sent = _prototypes(task, seen)
        return Update(sent, task.num_examples), {"model": state_of(task.model)}

    def _penalty(self, task: LocalTask, seen: list[Tensor]) -> Penalty | None:
        device = next(task.model.parameters()).device
        high, low, soft = (
            from_parts(task.received, task.classes, name=name).to(device)
            for name in ("protos-high", "protos-low", "soft")
        )
        weights = (self.high_weight, self.low_weight, self.soft_weight)
        if not bool(high.known.any()) or max(weights) == 0:
            return None
        contrast = partial(contrast_with_bank, temperature=self.temperature)

        def penalty(features: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
            total = features.new_zeros((), dtype=torch.float32)
            if self.high_weight:
                total = total + self.high_weight * contrast(features, labels, high)
            if self.low_weight:
                total = total + self.low_weight * contrast(seen[-1], labels, low)
            if self.soft_weight:
                soft_loss = distillation(
                    logits, labels, soft, temperature=self.soft_temperature
                )
                total = total + self.soft_weight * soft_loss
            return total

        return penalty

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        """Yield the own classifier, then the class of the nearest high prototype."""
        load(task.model, own_model(task, memory))
        yield "own", task.model
        device = next(task.model.parameters()).device
        bank = from_parts(task.received, task.classes, name="protos-high").to(device)
        if bank.known.any():
            yield "nearest", partial(_nearest, task.model.encoder, bank)


def _normal(rows: Tensor) -> Tensor:
    return functional.normalize(rows.float(), dim=1, eps=1e-12)


def _nearest(encoder: nn.Module, bank: Bank, images: Tensor) -> Tensor:
    return as_logits(squared_distances(_normal(encoder(images)), bank))


def _prototypes(task: LocalTask, seen: list[Tensor]) -> Payload:
    """Return class means of normalised high and low features."""
    sums: dict[str, Tensor] = {}
    counts = torch.zeros(task.classes, dtype=torch.float64)
    for features, labels in embedded(task.model.encoder, task.labelled):
        for name, rows in (("protos-high", features), ("protos-low", seen[-1])):
            more, number = class_sums(_normal(rows), labels, task.classes)
            sums[name] = sums[name] + more.cpu() if name in sums else more.cpu()
        counts += number.cpu()
    found: dict[str, dict[str, Tensor]] = {}
    for name, values in sums.items():
        found |= to_parts(class_means(values, counts), name=name)
    return found
