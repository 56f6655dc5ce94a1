"""FedALA, client side (Zhang et al. 2023, arXiv 2212.01197, Algorithm 1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from fedapp.algorithm import (
    LocalAlgorithm,
    LocalTask,
    Memory,
    Predictor,
    Update,
    local_sgd,
    seeded,
)
from fedapp.data.samples import Samples
from fedapp.mixing import learn
from fedapp.models import load, state_of
from fedapp.params import Params, tree_map

MAX_PASSES = 100
"""Of a client's first learning; the public code goes on for ever on a NaN."""


def top_parameters(model: nn.Module, layers: int) -> list[str]:
    """Return the names of the parameters of the last ``layers`` layers; 0: of all.

    A layer is a module with parameters of its own, BatchNorm too.
    """
    found = [
        [f"{name}.{leaf}" for leaf, _ in module.named_parameters(recurse=False)]
        for name, module in model.named_modules()
    ]
    return [name for names in [f for f in found if f][-layers:] for name in names]


def window(task: LocalTask, share: float) -> Samples:
    """Return a share of the client's training samples, at least one.

    They follow each other from a place that changes each round, in an order of the
    client's own: its samples may lie sorted by class.
    """
    total = task.num_examples
    count = max(1, int(share * total + 1e-9))
    order = torch.randperm(total, generator=seeded(task.seed, task.client, 0))
    start = torch.randint(total - count + 1, (1,), generator=task.generator()).item()
    index = order[int(start) : int(start) + count].to(task.labelled.labels.device)
    return Samples(*task.labelled.batch(index))


@dataclass(frozen=True)
class LocalFedALA(LocalAlgorithm):
    """Start from a mixture of the own old model and the global one, weight by weight.

    The weights of the top layers are learned; below, and in buffers, the model is the
    global one. Only the top layers of the old model are ever read, so only they are
    kept. Departures: a pass records its mean loss, not that of its last batch;
    BatchNorm runs in evaluation mode while weights are learned.
    """

    layers: Annotated[
        int, Field(ge=0, description="top layers that are mixed; 0: all layers")
    ]
    weight_lr: Annotated[
        float, Field(ge=0, description="learning rate of the mixing weights")
    ]
    share: Annotated[
        float, Field(gt=0, le=1, description="share of the samples that learn them")
    ]

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        weights = self._start(task, memory)
        local_sgd(task)
        after = state_of(task.model)
        top = top_parameters(task.model, self.layers)
        kept = {"old": {name: after[name] for name in top}}
        learned = {"weights": weights} if weights else {}
        return Update({"model": after}, task.num_examples), {**kept, **learned}

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        with torch.enable_grad():
            self._start(task, memory)
        yield "personal", task.model

    def _start(self, task: LocalTask, memory: Memory) -> Params:
        """Load the mixture and return its weights: none as long as none were learned.

        Before the client ever trained, or if nothing differs, it is the global model.
        """
        load(task.model, task.received["model"])
        task.model.eval()
        old, known = memory.get("old", {}), memory.get("weights", {})
        if all(torch.equal(leaf, task.received["model"][n]) for n, leaf in old.items()):
            return known
        device = task.labelled.labels.device
        weights = known or tree_map(torch.ones_like, old)
        weights = learn(
            task,
            {name: leaf.to(device) for name, leaf in old.items()},
            {name: leaf.to(device) for name, leaf in weights.items()},
            window(task, self.share),
            lr=self.weight_lr,
            passes=1 if known else MAX_PASSES,
        )
        return {name: leaf.cpu() for name, leaf in weights.items()}
