"""Several models on the server, one for each cluster; they are parts of its state."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from fedapp.algorithm import seeded
from fedapp.params import Params, Payload, WeightedMean

PREFIX = "cluster-"


def cluster_parts(models: Sequence[Params]) -> dict[str, Params]:
    """Return models as parts of a state or a payload, named by their number."""
    return {f"{PREFIX}{number}": model for number, model in enumerate(models)}


def cluster_models(payload: Payload) -> list[Params]:
    """Return the models among the parts of a state or a payload, in order."""
    count = sum(part.startswith(PREFIX) for part in payload)
    return [payload[f"{PREFIX}{number}"] for number in range(count)]


def different_starts(
    initial: Params, count: int, *, seed: int, other_start: Callable[[int], Params]
) -> list[Params]:
    """Return the first models of ``count`` clusters, all different.

    Cluster 0 starts from the common initial model, the others from seeds derived from
    the run's (``seed``); ``other_start`` makes the initial model of a seed.
    """
    others = (seeded(seed, number).initial_seed() for number in range(1, count))
    return [initial, *(other_start(other) for other in others)]


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
