"""What a finished run found, as numbers by name."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.measures import ARI


def found_in(run: Path, summary: Mapping[str, Any]) -> dict[str, float]:
    """Return accuracies, those of unseen clients by model, and the index of groups."""
    return {**summary["accuracy"], **_of_unseen(summary), **last_ari(run)}


def _of_unseen(summary: Mapping[str, Any]) -> dict[str, float]:
    unseen = summary.get("unseen")
    if unseen is None:
        return {}
    found = {"unseen": unseen["mean"], "unseen_worst": unseen["worst"]}
    for model, few in unseen.get("models", {}).items():
        found[f"unseen_{model}"] = few["mean"]
        found[f"unseen_{model}_worst"] = few["worst"]
    return found


def last_ari(run: Path) -> dict[str, float]:
    """Return the index of HDC-FL's last refresh, nothing without one."""
    try:
        with (run / "hdc-fl" / "refreshes.csv").open(newline="") as stream:
            found = [row[ARI] for row in csv.DictReader(stream)]
    except FileNotFoundError:
        return {}
    return {ARI: float(found[-1])} if found and found[-1] else {}
