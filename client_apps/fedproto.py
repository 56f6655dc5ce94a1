"""FedProto, client side (Tan et al. 2022, arXiv 2105.00243, equation 7)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

from fedapp.algorithm import (
    LocalAlgorithm,
    LocalTask,
    Memory,
    Predictor,
    Update,
    local_sgd,
)
from fedapp.embeddings import ClassStatistics, embedded, statistics
from fedapp.models import load, state_of
from fedapp.params import Params, Payload
from fedapp.prototype_log import MEASURED
from fedapp.prototype_parts import counted, from_parts, to_parts
from fedapp.prototypes import Bank, as_logits, squared_distances
from fedapp.proxy_losses import alignment
from fedapp.terms import GradientProbe, Term, penalty_of


def own_model(task: LocalTask, memory: Memory) -> Params:
    """Return the client's model; before it ever trained, the initial one."""
    return memory.get("model", task.initial)


def bank_of(task: LocalTask) -> Bank:
    """Return the prototypes that came with a message, on the client's device."""
    device = next(task.model.parameters()).device
    return from_parts(task.received, task.classes).to(device)


def prototypes(encoder: nn.Module, task: LocalTask) -> ClassStatistics:
    """Return sums by class over the labelled samples, by a clean pass.

    Departure from the reference code, which averages the embeddings of the last
    training epoch, of weights that change under it.
    """
    width = task.model.head.in_features
    return statistics(
        embedded(encoder, task.labelled), classes=task.classes, width=width
    )


def reported(found: ClassStatistics) -> Payload:
    """Return prototypes, their classes and counts as the parts of a reply."""
    return {**to_parts(found.means), **counted(found.counts)}


@dataclass(frozen=True)
class LocalFedProto(LocalAlgorithm):
    """SGD on the own model, its embeddings pulled to the global prototypes."""

    lam: float
    diagnostics: Annotated[
        bool, Field(description="report gradient norms and spread: 16 bytes a reply")
    ]

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        bank = bank_of(task)
        load(task.model, own_model(task, memory))
        lam = float(task.scalars.get("lam", self.lam))
        terms = [Term("alignment", lam, partial(alignment, bank=bank))]
        probe = GradientProbe(task.model.head, task.loss, terms)
        penalty = penalty_of(terms)
        local_sgd(
            task, penalty=probe.watching(penalty) if self.diagnostics else penalty
        )
        found = prototypes(task.model.encoder, task)
        metrics = probe.metrics(*MEASURED) | {"spread": found.spread}
        update = Update(
            reported(found), task.num_examples, metrics if self.diagnostics else {}
        )
        return update, {"model": state_of(task.model)}

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        """Yield the own classifier, then the class of the nearest prototype.

        All known classes compete; the reference test lets only the client's own, which
        takes knowledge of labels.
        """
        load(task.model, own_model(task, memory))
        yield "own", task.model
        bank = bank_of(task)
        if bank.known.any():
            yield "nearest", partial(_nearest, task.model.encoder, bank)


def _nearest(encoder: nn.Module, bank: Bank, images: Tensor) -> Tensor:
    return as_logits(squared_distances(encoder(images).float(), bank))
