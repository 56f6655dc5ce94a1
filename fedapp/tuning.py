"""Tuning at evaluation: a copy trains on training samples, is scored, and forgotten."""

from logging import WARNING, getLogger

import torch

from fedapp.algorithm import LocalTask, Part, local_sgd
from fedapp.models import load, state_of

log = getLogger("flwr")

UNTUNED = "untuned"
"""The name under which a model is scored whose tuning came to nothing."""


def tune(task: LocalTask, *, part: Part, epochs: int) -> bool:
    """Train ``task.model`` as ``local_sgd`` does; return whether that went well.

    If a loss on the training samples is not finite, on the way or afterwards, the model
    is what it was before. It is left in evaluation mode. For ``predictors``, whose
    ``task.model`` is a scratch model.
    """
    before = state_of(task.model)
    try:
        with torch.enable_grad():
            local_sgd(task, part=part, epochs=epochs)
        task.model.eval()
        well = _is_finite(task)
    except FloatingPointError:
        well = False
    if not well:
        log.log(
            WARNING,
            "client %s: tuning diverged in round %s; the untuned model is scored",
            task.client,
            task.round,
        )
        load(task.model, before)
    task.model.eval()
    return well


@torch.no_grad()
def _is_finite(task: LocalTask) -> bool:
    return all(
        bool(torch.isfinite(task.loss(task.model(images), labels)))
        for images, labels in task.labelled.in_order(512)
    )
