"""What a client does with one message: the vocabulary of local algorithms."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedapp.data.samples import Samples
from fedapp.models import Classifier, load
from fedapp.params import Params, Payload

Memory = Payload
"""What one client keeps between rounds and never sends."""

Scalars = Mapping[str, int | float | str | bool]

Predictor = Callable[[Tensor], Tensor]
"""Images (n, C, H, W) to logits (n, classes)."""

Penalty = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Features (n, d), logits (n, classes), labels (n,) to a scalar added to the loss."""

Loss = Callable[[Tensor, Tensor], Tensor]
"""Logits (n, classes) and labels (n,) to their mean loss."""

Part = Literal["all", "encoder", "head"]


def seeded(*key: int) -> torch.Generator:
    """Return a generator that depends on the numbers of ``key`` and nothing else."""
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) & (2**63 - 1))


@dataclass(frozen=True)
class LocalTask:
    """All that a client needs to answer one message.

    ``model`` is a scratch model on the client's device, its weights undefined: load
    what the method says. ``initial`` is the state every client and method of an
    experiment starts from. ``received`` and ``scalars`` are what the server sent in
    ``phase`` of ``round`` (from 1). ``labelled`` and ``unlabelled`` are training
    samples; test samples never reach an algorithm. ``simulated`` is False on a device,
    where noise that protects somebody must not follow from the seed.
    """

    model: Classifier
    initial: Params
    received: Payload
    labelled: Samples
    classes: int
    seed: int
    client: int
    lr: float
    epochs: int
    batch_size: int
    scalars: Scalars = field(default_factory=dict)
    unlabelled: Samples | None = None
    phase: str = "train"
    round: int = 1
    momentum: float = 0.0
    weight_decay: float = 0.0
    bfloat16: bool = False
    simulated: bool = True
    loss: Loss = functional.cross_entropy

    @property
    def num_examples(self) -> int:
        """Number of labelled training samples."""
        return len(self.labelled)

    def generator(self) -> torch.Generator:
        """Return a new generator seeded by (seed, client, round)."""
        return seeded(self.seed, self.client, self.round)


@dataclass(frozen=True)
class Update:
    """What a client returns: tensors, how many examples they stand for, scalars.

    On the server, ``client`` says whose it is and ``asked`` holds the scalars of the
    message it answers.
    """

    sent: Payload
    num_examples: int
    metrics: Mapping[str, int | float] = field(default_factory=dict)
    client: int = -1
    asked: Scalars = field(default_factory=dict)


class LocalAlgorithm(ABC):
    """The client half of a method: a frozen dataclass of hyperparameters."""

    @abstractmethod
    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        """Answer a message of any phase but evaluation; return what to remember.

        Returning ``memory`` itself means that nothing new is to be remembered.
        """

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterable[tuple[str, Predictor]]:
        """Yield what is scored on the client's test samples, with a name for each.

        Each is scored before the next is asked for, so all may use ``task.model``,
        which is in evaluation mode. The first one stands for the method in summaries.
        The default is the received model under the name ``global``.
        """
        load(task.model, task.received["model"])
        yield "global", task.model


def local_sgd(
    task: LocalTask,
    *,
    part: Part = "all",
    epochs: int | None = None,
    penalty: Penalty | None = None,
    grad_shift: Params | None = None,
) -> int:
    """Train ``task.model`` in place by SGD on ``task.loss``; return the step count.

    Parameters
    ----------
    part : what is trained. The rest is frozen: out of the optimizer, without
        gradients, and its BatchNorm layers in evaluation mode.
    epochs : passes over the labelled samples, ``task.epochs`` by default.
    penalty : added to the loss of each batch.
    grad_shift : added to the gradient of each parameter it names.

    A fresh optimizer is made at every call. A batch of a single sample is left out if
    the model has BatchNorm and the epoch has other batches; if it is all there is,
    BatchNorm runs in evaluation mode (specification 0.4).

    Raises
    ------
    FloatingPointError
        If the loss is not finite at the end of an epoch.
    """
    model = task.model
    trained = _train_mode(model, part)
    optimizer = torch.optim.SGD(
        [leaf for leaf in trained.values() if leaf.requires_grad],
        lr=task.lr,
        momentum=task.momentum,
        weight_decay=task.weight_decay,
        fused=True,
    )
    shift = {
        leaf: grad_shift[name].to(leaf.device)
        for name, leaf in (trained.items() if grad_shift else ())
        if grad_shift and name in grad_shift
    }
    norms = [
        m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)
    ]
    device = next(model.parameters()).device
    generator = task.generator()
    steps = 0
    for _ in range(task.epochs if epochs is None else epochs):
        loss = torch.zeros(())
        for images, labels in task.labelled.shuffled(task.batch_size, generator):
            if norms and len(labels) == 1:
                if task.num_examples > 1:
                    continue
                for norm in norms:
                    norm.eval()
            with torch.autocast(device.type, torch.bfloat16, enabled=task.bfloat16):
                features = model.encoder(images)
                logits = model.head(features)
                loss = task.loss(logits, labels)
                if penalty is not None:
                    loss = loss + penalty(features, logits, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            for leaf, step in shift.items():
                if leaf.grad is not None:
                    leaf.grad.add_(step)
            optimizer.step()
            steps += 1
        if not bool(torch.isfinite(loss)):
            raise FloatingPointError(
                f"the training loss of client {task.client} is {loss.item()} in round "
                f"{task.round}: training diverged; lower local.lr (now {task.lr:g})"
            )
    return steps


def _train_mode(model: Classifier, part: Part) -> dict[str, nn.Parameter]:
    """Set training mode and gradients for ``part`` only; return its parameters."""
    trained = {}
    for name, child in (("encoder", model.encoder), ("head", model.head)):
        on = part in ("all", name)
        child.train(on)
        for leaf_name, leaf in child.named_parameters():
            leaf.requires_grad_(on)
            leaf.grad = None
            if on:
                trained[f"{name}.{leaf_name}"] = leaf
    return trained


@torch.inference_mode()
def score(
    predictor: Predictor, samples: Samples, *, batch_size: int = 512
) -> tuple[int, float]:
    """Return the number of right answers and the sum of cross-entropy losses.

    Loss sums run in float64 over batches, in order.
    """
    correct, loss = 0, 0.0
    for images, labels in samples.in_order(batch_size):
        logits = predictor(images).float()
        correct += int((logits.argmax(dim=1) == labels).sum())
        loss += float(functional.cross_entropy(logits, labels, reduction="sum"))
    return correct, loss


def score_all(
    algorithm: LocalAlgorithm, task: LocalTask, memory: Memory, test: Samples
) -> list[tuple[str, int, float]]:
    """Return the name, right answers and sum of losses of each of the predictors."""
    task.model.eval()
    with torch.no_grad():
        return [
            (name, *score(predictor, test))
            for name, predictor in algorithm.predictors(task, memory)
        ]
