"""What comes of a donor swap: a row for each pair, and the summary of 23.9."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fedapp.hdc import overlap as labels
from fedapp.hdc import swap as measure
from fedapp.hdc.heads import Array
from fedapp.study.bench import Bench
from fedapp.study.swap import Swaps
from fedapp.study.table import Cell, write_results

PAIRS = "hdc-fl/swap.csv"
SUMMARY = "hdc-fl/swap.json"


def write(bench: Bench, found: Swaps) -> tuple[Path, dict[str, Any]]:
    """Write pairs and summary into the run folder; return the summary and its path."""
    path, facts = bench.place.path, summary(bench, found)
    return write_results(path / PAIRS, pairs(bench, found), path / SUMMARY, facts)


def pairs(bench: Bench, found: Swaps) -> Iterator[dict[str, Cell]]:
    """Yield a row for each ordered pair; loss + gain is that of the own encoder."""
    gain = measure.gains(found.loss)
    overlap, cosine = _overlaps(bench, found)
    for i, target in enumerate(found.clients):
        for j, donor in enumerate(found.clients):
            if i == j:
                continue
            yield {
                "round": bench.commit.round,
                "target": target,
                "donor": donor,
                "similarity": float(found.similarity[i, j]),
                "loss": float(found.loss[i, j]),
                "gain": float(gain[i, j]),
                "accuracy": float(found.accuracy[i, j]),
                "accuracy_change": float(found.accuracy[i, j] - found.accuracy[i, i]),
                "label_jaccard": float(overlap[i, j]),
                "label_cosine": float(cosine[i, j]),
                "same_latent_group": _yes(found.latent[i] == found.latent[j]),
                "same_group": _yes(found.found[i] == found.found[j]),
            }


def summary(bench: Bench, found: Swaps) -> dict[str, Any]:
    """Return the numbers of the diagnostic; a null is one that is not defined here."""
    similarity, gain = found.similarity, measure.gains(found.loss)
    rho = measure.spearman_by_target(similarity, gain)
    donors = measure.nearest_donors(similarity, found.accuracy)
    return {
        "round": bench.commit.round,
        "clients": len(found.clients),
        "pairs": len(found.clients) * (len(found.clients) - 1),
        "rho": measure.mean_known(rho),
        "auroc": measure.auroc_pooled(similarity, gain),
        "auroc_by_target": measure.mean_known(
            measure.auroc_by_target(similarity, gain)
        ),
        "beneficial": measure.beneficial(gain),
        "nearest": {
            "accuracy": donors.accuracy,
            "random_accuracy": donors.random_accuracy,
            "benefit": donors.benefit,
        },
        "latent_groups": _by_group(found, donors, found.latent),
        "found_groups": _by_group(found, donors, found.found),
        "overlap": dict(_confounds(bench, found, gain)),
        "targets": [
            {
                "client": client,
                "rho": rho[place],
                "nearest": found.clients[donors.nearest[place]],
            }
            for place, client in enumerate(found.clients)
        ],
    }


def _by_group(
    found: Swaps, donors: measure.Donors, groups: tuple[int, ...]
) -> dict[str, Any] | None:
    if len(set(groups)) < 2:
        return None
    return asdict(measure.by_group(donors.nearest, found.accuracy, groups))


def _confounds(
    bench: Bench, found: Swaps, gain: Array
) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, overlap in zip(
        ("jaccard", "cosine"), _overlaps(bench, found), strict=True
    ):
        by_target = labels.confound(found.similarity, gain, overlap)
        pooled = labels.confound_pooled(found.similarity, gain, overlap)
        yield name, {"by_target": _overlap(by_target), "pooled": _overlap(pooled)}


def _overlap(found: labels.Overlap) -> dict[str, Any]:
    return {**asdict(found), "partial": found.partial}


def _overlaps(bench: Bench, found: Swaps) -> tuple[Array, Array]:
    """Return label overlap as Jaccard of class sets and cosine of histograms."""
    plans = [bench.manifest.clients[client] for client in found.clients]
    sets = labels.jaccard([plan.classes for plan in plans])
    return sets, np.asarray(labels.cosine([plan.histogram for plan in plans]))


def _yes(value: bool) -> str:
    return str(value).lower()
