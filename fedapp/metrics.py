"""What is said of a run: accuracies over clients, the worst-off beside the mean."""

import math
from collections.abc import Mapping, Sequence


def over_clients(
    accuracies: Sequence[float], examples: Sequence[int]
) -> dict[str, float]:
    """Return mean, weighted mean, deviation, worst, bottom 20 % and gap (fractions).

    ``mean`` counts clients equally; ``weighted_mean`` by test samples; ``std`` is the
    population deviation over clients; ``bottom20`` is the mean of the ceil(0.2 K)
    lowest; ``gap`` is best minus worst (specification 0.6).
    """
    if not accuracies:
        raise ValueError("need the accuracy of at least one client")
    ascending = sorted(accuracies)
    count = len(ascending)
    mean = math.fsum(ascending) / count
    # 0.2 K in integers: 0.2 * 15 is 3.0000000000000004 in floats, whose ceiling is 4.
    lowest = ascending[: -(-count // 5)]
    return {
        "mean": mean,
        "weighted_mean": math.fsum(
            a * n for a, n in zip(accuracies, examples, strict=True)
        )
        / sum(examples),
        "std": math.sqrt(math.fsum((a - mean) ** 2 for a in ascending) / count),
        "worst": ascending[0],
        "bottom20": math.fsum(lowest) / len(lowest),
        "gap": ascending[-1] - ascending[0],
    }


def ranks(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the rank of each name, 1 for the highest; ties share the average rank."""
    values = list(scores.values())
    return {
        name: sum(v > score for v in values) + (values.count(score) + 1) / 2
        for name, score in scores.items()
    }
