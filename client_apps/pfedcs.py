"""PFedCS, client side (Wu et al. 2025, AAAI 39(20), pages 21572 to 21580)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from client_apps.fedper import LocalFedPer, own_head
from fedapp.algorithm import LocalTask, Memory, Penalty, Update, local_sgd
from fedapp.models import load, state_of
from fedapp.params import Params, join, select


def divergence(teacher: Tensor, student: Tensor) -> Tensor:
    """Return KL(teacher || student) of two batches of logits, the mean over samples."""
    return functional.kl_div(
        functional.log_softmax(student, dim=1),
        functional.log_softmax(teacher, dim=1),
        reduction="batchmean",
        log_target=True,
    )


def follow(teacher: Params) -> Penalty:
    """Return the penalty of straying from a teacher head on the same features."""

    def penalty(features: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        weight = teacher["weight"].to(features.device)
        bias = teacher["bias"].to(features.device) if "bias" in teacher else None
        with torch.no_grad():
            target = functional.linear(features, weight, bias)
        return divergence(target, logits)

    return penalty


@dataclass(frozen=True)
class LocalPFedCS(LocalFedPer):
    """FedPer; with a head received, that head is tuned first and then followed.

    The loss is cross-entropy plus KL(teacher || student), both on the features of the
    encoder in training. The teacher is forgotten afterwards.
    """

    teacher_epochs: Annotated[
        int, Field(ge=0, description="epochs that tune a teacher first (rho)")
    ]

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        if "head" not in task.received:
            return super().train(task, memory)
        encoder = task.received["encoder"]
        load(task.model, join(encoder=encoder, head=task.received["head"]))
        local_sgd(task, part="head", epochs=self.teacher_epochs)
        teacher = select(state_of(task.model), "head")
        load(task.model, join(encoder=encoder, head=own_head(task, memory)))
        local_sgd(task, penalty=follow(teacher))
        after = state_of(task.model)
        sent = {part: select(after, part) for part in ("encoder", "head")}
        return Update(sent, task.num_examples), {"head": sent["head"]}
