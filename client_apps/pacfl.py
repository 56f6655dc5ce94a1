"""PACFL, client side (Vahidian et al. 2023, arXiv 2209.10526)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from client_apps.sgd import LocalSGD
from fedapp.algorithm import LocalTask, Memory, Update
from fedapp.angles import signature

BATCH = 512


@dataclass(frozen=True)
class LocalPacfl(LocalSGD):
    """Sign once: leading directions of each class of raw images; then plain SGD."""

    directions: Annotated[
        int, Field(ge=1, description="singular vectors that a client sends per class")
    ]

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        if task.phase != "signature":
            return super().train(task, memory)
        # In order: without augmentation.
        batches = [
            images.flatten(1).cpu() for images, _ in task.labelled.in_order(BATCH)
        ]
        labels = task.labelled.labels.cpu()
        vectors = signature(torch.cat(batches).double(), labels, self.directions)
        sent = {"sketch": {"vectors": vectors.float().contiguous()}}
        classes = {"classes": len(labels.unique())}
        return Update(sent, task.num_examples, classes), memory
