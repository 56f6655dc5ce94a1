"""Accuracy over rounds, from the rows of metrics.csv."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fedapp.metrics import over_clients
from fedapp.report.parts import Accuracy, ScoreRow


@dataclass(frozen=True)
class Point:
    """One evaluation: accuracies over clients, and their quartiles."""

    round: int
    accuracy: Accuracy
    low: float
    high: float


def main_rows(scores: Iterable[ScoreRow]) -> dict[int, list[ScoreRow]]:
    """Return, by round, each client's score with the method's own model.

    That model is the first a client reports.
    """
    rounds: dict[int, dict[int, ScoreRow]] = {}
    for row in scores:
        rounds.setdefault(row.round, {}).setdefault(row.client, row)
    return {round_: list(rows.values()) for round_, rows in sorted(rounds.items())}


def points(scores: Iterable[ScoreRow], *, unseen_from: int) -> list[Point]:
    """Return one point for each evaluation, unseen clients left out.

    Clients that never trained are left out of worst, bottom 20 % and gap, as in
    summary.json.
    """
    found = []
    for round_, rows in main_rows(scores).items():
        seen = [row for row in rows if row.client < unseen_from]
        if not seen:
            continue
        trained = [row for row in seen if row.trained] or seen
        tail = _over(trained)
        accuracy = _over(seen) | {k: tail[k] for k in ("worst", "bottom20", "gap")}
        low, high = np.percentile([row.accuracy for row in seen], [25, 75])
        found.append(
            Point(round_, Accuracy.model_validate(accuracy), float(low), float(high))
        )
    return found


def other_models(
    scores: Iterable[ScoreRow], *, unseen_from: int
) -> dict[str, tuple[float, int]]:
    """Return mean accuracy and number of clients of each model, if several.

    They are of the last evaluation. Not every client reports every model.
    """
    rows = [row for row in scores if row.client < unseen_from]
    last = max((row.round for row in rows), default=0)
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.round == last:
            found.setdefault(row.model, []).append(row.accuracy)
    if len(found) < 2:
        return {}
    return {model: (sum(v) / len(v), len(v)) for model, v in found.items()}


def _over(rows: Sequence[ScoreRow]) -> dict[str, float]:
    return over_clients([r.accuracy for r in rows], [r.examples for r in rows])
