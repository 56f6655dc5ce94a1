"""The contents of summary.json: how a run ended and how every client did."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fedapp.ledger import Ledger

ACCURACIES = ("mean", "weighted_mean", "std", "worst", "bottom20", "gap")
TRAFFIC = {
    "down_bytes": "train_down_bytes",
    "up_bytes": "train_up_bytes",
    "evaluate_down_bytes": "evaluate_down_bytes",
    "evaluate_up_bytes": "evaluate_up_bytes",
}


def results(
    ledger: Ledger, *, names: Sequence[str], groups: Sequence[int]
) -> dict[str, Any]:
    """Return what the last evaluation found, traffic, and dropped replies.

    ``names`` are client ids and ``groups`` latent groups, by client number (or empty).
    Accuracies are None if nothing was evaluated.
    """
    scores = ledger.main_scores()
    accuracy: Mapping[str, float | None] = dict.fromkeys(ACCURACIES)
    if scores:
        accuracy = ledger.accuracy()
    return {
        "accuracy": accuracy,
        "unseen": _unseen(ledger),
        "per_client": [
            {
                "client": score.client,
                "name": names[score.client],
                "examples": score.examples,
                "accuracy": score.accuracy,
                "loss": score.loss,
                "latent_group": groups[score.client] if groups else None,
                "trained": score.client in ledger.last_trained,
            }
            for score in scores
        ],
        "traffic": {name: ledger.traffic.get(key, 0) for name, key in TRAFFIC.items()},
        "failures": [asdict(failure) for failure in ledger.failures],
    }


def _unseen(ledger: Ledger) -> dict[str, Any] | None:
    """Return how unseen clients did with the method's own model, and with each."""
    own = [s.accuracy for s in ledger.main_scores() if s.client >= ledger.unseen_from]
    if not own:
        return None
    models: dict[str, list[float]] = {}
    for score in ledger.scores:
        if score.client >= ledger.unseen_from:
            models.setdefault(score.model, []).append(score.accuracy)
    found = {model: _mean_and_worst(values) for model, values in models.items()}
    return {"clients": len(own), **_mean_and_worst(own), "models": found}


def _mean_and_worst(accuracies: Sequence[float]) -> dict[str, float]:
    return {"mean": sum(accuracies) / len(accuracies), "worst": min(accuracies)}


def against_fedavg(
    ledger: Ledger, *, model_bytes: int, participants: int
) -> float | None:
    """Return training traffic as a share of what FedAvg sends to the same clients.

    FedAvg sends the model to each participant and back. None if there is no one model.
    """
    if not model_bytes * participants:
        return None
    ours = sum(ledger.traffic.get(f"train_{way}_bytes", 0) for way in ("down", "up"))
    return ours / (2 * model_bytes * participants)


def durations(ledger: Ledger) -> dict[str, float]:
    """Return seconds by what they were spent on; ``server`` is the rest."""
    names = ("startup", "train", "evaluate")
    parts = {name: ledger.seconds.get(name, 0.0) for name in names}
    total = ledger.total_seconds
    parts["server"] = max(0.0, total - sum(parts.values()))
    return {name: round(value, 3) for name, value in {**parts, "total": total}.items()}
