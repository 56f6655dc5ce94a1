"""EMD-CFL, client side (Zhang, Williams and Toni 2025, arXiv 2506.07769)."""

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from client_apps.sgd import LocalSGD
from fedapp.algorithm import LocalTask, Memory, Update, seeded
from fedapp.data.samples import Samples
from fedapp.models import load
from fedapp.transport import projection

BATCH = 512


@dataclass(frozen=True)
class LocalEmdCfl(LocalSGD):
    """Plain SGD without the validation samples; and embeddings under a given encoder.

    Embeddings are taken in evaluation mode and projected by the run's matrix R. Those
    of training samples go to the server only when the message says ``own``.
    """

    holdout: Annotated[
        float,
        Field(ge=0, lt=1, description="share of samples never trained on"),
    ]
    sample_share: Annotated[
        float, Field(gt=0, le=1, description="share of a client's samples it embeds")
    ]
    max_samples: Annotated[int, Field(ge=1, description="embeddings in a set at most")]
    projection_ratio: float

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        train, validation = split(task, self.holdout)
        if task.phase == "train":
            kept = task.labelled
            if len(validation):
                kept = taken(task.labelled, train.sort().values)
            return super().train(replace(task, labelled=kept), memory)
        count = max(1, round(self.sample_share * task.num_examples))
        count = min(count, self.max_samples)
        # Without held-out samples, others than the first of the training samples.
        compared = validation if len(validation) else train.flip(0)
        rows = {
            "emb-train": self._embedded(task, train[:count]),
            "emb-val": self._embedded(task, compared[:count]),
        }
        if not task.scalars["own"]:
            rows["emb-train"] = rows["emb-train"][:0]
        sent = {part: {"rows": leaf} for part, leaf in rows.items()}
        return Update(sent, task.num_examples), memory

    @torch.no_grad()
    def _embedded(self, task: LocalTask, index: Tensor) -> Tensor:
        load(task.model.encoder, task.received["encoder"])
        task.model.eval()
        samples = taken(task.labelled, index)
        found = [task.model.encoder(x).cpu() for x, _ in samples.in_order(BATCH)]
        features = torch.cat(found)
        reduced = projection(features.shape[1], self.projection_ratio, seed=task.seed)
        return features @ reduced


def split(task: LocalTask, holdout: float) -> tuple[Tensor, Tensor]:
    """Return training and validation samples of a client, shuffled: always the same.

    Of two samples and more, at least one is held out and one is not.
    """
    count = task.num_examples
    order = torch.randperm(count, generator=seeded(task.seed, task.client, 0))
    held = min(max(1, round(holdout * count)), count - 1) if holdout else 0
    return order[: count - held], order[count - held :]


def taken(samples: Samples, index: Tensor) -> Samples:
    """Return some of the samples."""
    at = index.to(samples.labels.device)
    return Samples(samples.images[at], samples.labels[at], samples.view)
