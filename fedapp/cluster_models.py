"""Several whole models, one for each cluster: their starts, and how well one fits."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from fedapp.algorithm import LocalTask
from fedapp.data.samples import Samples
from fedapp.params import Params, Payload, join

Fresh = Callable[[int], Params]
"""A number to the initial state of a model of the run's kind, drawn from it alone."""

PART = "cluster-"


def part_of(cluster: int) -> str:
    """Return the name of a cluster's part in payloads and state."""
    return f"{PART}{cluster}"


def cluster_starts(
    initial: Params, count: int, *, seed: int, fresh: Fresh, attempt: int = 0
) -> list[Params]:
    """Return the model that each of ``count`` clusters starts from; all differ.

    Cluster 0 starts from ``initial``, where all methods of an experiment do; the others
    from models drawn anew, by seeds derived from the run's ``seed``, the ``attempt``
    and the cluster's number. Those of the same numbers are the same whatever ``count``.
    """
    if count < 1:
        raise ValueError(f"need at least one cluster, not {count}")
    others = (fresh(_derived(seed, attempt, cluster)) for cluster in range(1, count))
    return [initial, *others]


def _derived(*key: int) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint32)[0]) >> 1


def models_of(received: Payload) -> list[Params]:
    """Return the cluster models of a message, in order.

    With a part ``encoder``, which all share, the clusters' parts are heads.
    """
    count = sum(part.startswith(PART) for part in received)
    parts: list[Params] = [received[part_of(cluster)] for cluster in range(count)]
    if "encoder" in received:
        return [join(encoder=received["encoder"], head=head) for head in parts]
    return parts


def state_of_clusters(models: list[Params]) -> dict[str, Params]:
    """Return cluster models as parts of a state or payload."""
    return {part_of(cluster): model for cluster, model in enumerate(models)}


@torch.no_grad()
def mean_loss(task: LocalTask, samples: Samples | None = None) -> float:
    """Return the mean loss of ``task.model`` over its labelled (or other) samples.

    The model is put into evaluation mode, so that no BatchNorm buffer moves, and
    batches count by their size. Sums run in float64.
    """
    samples = task.labelled if samples is None else samples
    task.model.eval()
    total = 0.0
    for images, labels in samples.in_order(512):
        loss = task.loss(task.model(images).float(), labels)
        total += float(loss) * len(labels)
    return total / len(samples)


def lowest(losses: Sequence[float]) -> int:
    """Return the index of the smallest loss, the first of equals; a NaN never wins."""
    values = np.asarray(losses, dtype=np.float64)
    return int(np.argmin(np.where(np.isnan(values), np.inf, values)))
