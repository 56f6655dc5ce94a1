"""Several models on the server, one for each cluster: their starts, means and fits.

They are parts of a state or of a payload, named by their number.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import torch

from fedapp.algorithm import LocalTask
from fedapp.data.samples import Samples
from fedapp.params import Params, Payload, WeightedMean, join

PREFIX = "cluster-"


def part_of(cluster: int) -> str:
    """Return the name of a cluster's part."""
    return f"{PREFIX}{cluster}"


def cluster_parts(models: Sequence[Params]) -> dict[str, Params]:
    """Return models as parts of a state or a payload."""
    return {part_of(number): model for number, model in enumerate(models)}


def cluster_models(payload: Payload) -> list[Params]:
    """Return the models among the parts of a state or a payload, in order.

    With a part ``encoder``, which all share, the clusters' parts are heads.
    """
    count = sum(part.startswith(PREFIX) for part in payload)
    parts: list[Params] = [payload[part_of(number)] for number in range(count)]
    if "encoder" in payload:
        return [join(encoder=payload["encoder"], head=head) for head in parts]
    return parts


def cluster_starts(
    initial: Params,
    count: int,
    *,
    seed: int,
    other_start: Callable[[int], Params],
    attempt: int = 0,
) -> list[Params]:
    """Return the model that each of ``count`` clusters starts from; all differ.

    Cluster 0 starts from ``initial``, where all methods of an experiment do; the others
    from ``other_start`` of seeds derived from the run's ``seed``, the ``attempt`` and
    the cluster's number. Those of the same numbers are the same whatever ``count``.
    """
    if count < 1:
        raise ValueError(f"need at least one cluster, not {count}")
    others = (other_start(_derived(seed, attempt, g)) for g in range(1, count))
    return [initial, *others]


def _derived(*key: int) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint32)[0]) >> 1


def cluster_means(
    models: Sequence[Params], replies: Iterable[tuple[Params, Mapping[int, float]]]
) -> list[Params]:
    """Return for each cluster the weighted mean of the trees that belong to it.

    ``replies`` gives each tree with its weight in every cluster that it counts for. A
    cluster without a positive weight keeps its model.
    """
    means = [WeightedMean() for _ in models]
    for tree, weights in replies:
        for cluster, weight in weights.items():
            means[cluster].add(tree, weight)
    return [
        mean.value() if mean.total > 0 else model
        for mean, model in zip(means, models, strict=True)
    ]


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
