"""What comes of the variants: rows by client, and a summary with paired differences."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from fedapp.hdc.newcomers import LANDMARKS
from fedapp.hdc.raw import MOST_CLIENTS
from fedapp.hdc.refresh_state import RAW
from fedapp.ledger import Score
from fedapp.study.bench import Bench
from fedapp.study.grouping import PROJECTED, RAW_HEADS, grouping, refreshes
from fedapp.study.table import Cell, read_rows, write_results
from fedapp.study.variant import SHARED, SOFT
from fedapp.study.variants import Scores

ROWS = "hdc-fl/variants.csv"
SUMMARY = "hdc-fl/variants.json"


def write(bench: Bench, found: Scores) -> tuple[Path, dict[str, Any]]:
    """Write rows and summary into the run folder; return the summary and its path."""
    path, facts = bench.place.path, summary(bench, found)
    return write_results(path / ROWS, rows(bench, found), path / SUMMARY, facts)


def rows(bench: Bench, found: Scores) -> Iterator[dict[str, Cell]]:
    """Yield a row for each variant and client."""
    for name, scores in found.items():
        for one in scores:
            yield {
                "round": bench.commit.round,
                "variant": name,
                "client": one.score.client,
                "examples": one.score.examples,
                "loss": one.score.loss,
                "accuracy": one.score.accuracy,
                "latent_group": bench.manifest.clients[one.score.client].group,
                "group": one.group,
                "personalised": str(one.personal).lower(),
            }


def summary(bench: Bench, found: Scores) -> dict[str, Any]:
    """Return accuracies by variant, differences to ``soft``, and the groupings."""
    scores = {name: [one.score for one in ones] for name, ones in found.items()}
    return {
        "round": bench.commit.round,
        "as_run": as_run(bench, scores),
        "variants": {
            name: {
                "accuracy": bench.accuracy(ones),
                "loss": fmean(s.loss for s in ones if s.client < bench.unseen_from),
                "minus_soft": paired(ones, scores[SOFT], unseen_from=bench.unseen_from),
            }
            for name, ones in scores.items()
        },
        "grouping": {kind: grouping(bench, kind) for kind in (PROJECTED, RAW_HEADS)},
        "notes": list(_notes(bench)),
    }


def paired(
    scores: list[Score], soft: list[Score], *, unseen_from: int
) -> dict[str, Any]:
    """Return the accuracy of a variant minus that of ``soft``, client by client.

    Unseen clients are left out. ``sd`` is the sample deviation over clients.
    """
    pairs = zip(scores, soft, strict=True)
    gained = {
        a.client: a.accuracy - b.accuracy for a, b in pairs if a.client < unseen_from
    }
    values = list(gained.values())
    better, worse = sum(v > 0 for v in values), sum(v < 0 for v in values)
    return {
        "mean": fmean(values),
        "sd": stdev(values) if len(values) > 1 else None,
        "better": better,
        "alike": len(values) - better - worse,
        "worse": worse,
        "lowest": min(values),
        "highest": max(values),
    }


def as_run(bench: Bench, scores: Mapping[str, list[Score]]) -> dict[str, Any] | None:
    """Return which variant is what the run itself was scored with, and whether the
    scores are equal; None if the run was not evaluated in that round.
    """
    own: dict[int, tuple[float, float]] = {}
    for row in read_rows(bench.place.path / "metrics.csv"):
        if int(row["round"]) == bench.commit.round:
            pair = float(row["loss"]), float(row["accuracy"])
            own.setdefault(int(row["client"]), pair)
    if not own:
        return None
    name = SOFT if _personal(bench) else SHARED
    same = all(own.get(s.client) == (s.loss, s.accuracy) for s in scores[name])
    return {"variant": name, "equal": same}


def _personal(bench: Bench) -> bool:
    """Return whether the run used personal encoders in that round."""
    params, someone = bench.commit.params, bench.groups.clients[0]
    tasks = bench.rule().personal(params, bench.state, [someone], bench.turn())
    return bool(next(iter(tasks)).scalars.get("personalised"))


def _notes(bench: Bench) -> Iterator[str]:
    last = max((int(row["round"]) for row in refreshes(bench)), default=0)
    if last < bench.commit.round:
        yield (
            f"groups and memberships are of the last refresh, round {last}; encoders "
            f"and heads of round {bench.commit.round}"
        )
    if RAW not in bench.state:
        why = f"raw heads are grouped up to {MOST_CLIENTS} clients only"
        if bench.settings.table["exchange"] == "sketch":
            why = "with hdc-fl.exchange = 'sketch' the server had no heads"
        yield f"no variant raw: {why}"
    if LANDMARKS in bench.state:
        yield (
            "clients that were not at the last refresh are given the shared encoder by "
            "variants with other groups or memberships"
        )
