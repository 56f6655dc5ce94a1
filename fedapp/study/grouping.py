"""How clear and how lasting groups were, by descriptors and by raw heads (23.7)."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from fedapp.hdc.refresh_state import RAW, SNAPSHOT, snapshot_of
from fedapp.hdc.stability import agreement
from fedapp.study.bench import Bench
from fedapp.study.table import read_rows

PROJECTED, RAW_HEADS = "projected", "raw"
REFRESHES = "hdc-fl/refreshes.csv"
PARTS = {PROJECTED: (SNAPSHOT, ""), RAW_HEADS: (RAW, "_raw")}
"""Part of the state, and what columns of refreshes.csv end with."""


def refreshes(bench: Bench) -> list[dict[str, str]]:
    """Return the rows of refreshes.csv up to the committed round."""
    found = read_rows(bench.place.path / REFRESHES)
    return [row for row in found if int(row["round"]) <= bench.commit.round]


def grouping(bench: Bench, kind: str) -> dict[str, Any] | None:
    """Return the last refresh's groups, silhouette and agreements, and means over all
    refreshes; None if these heads were not grouped.

    ``ari_previous`` is the adjusted Rand index to the refresh before, ``ari_latent``
    that to the latent groups, if there are some. Silhouettes are each in the space that
    was clustered: those of descriptors and of raw heads are not of the same distances.
    """
    part, end = PARTS[kind]
    found = snapshot_of(bench.state, part)
    if found is None:
        return None
    seen = refreshes(bench)
    silhouettes = _numbers(seen, f"silhouette{end}")
    agreements = _numbers(seen, f"ari_previous{end}")
    latent = [bench.manifest.clients[k].group for k in found.clients.tolist()]
    return {
        "groups": int(found.labels.max()) + 1,
        "silhouette": silhouettes[-1] if silhouettes else None,
        "ari_previous": agreements[-1] if agreements else None,
        "ari_latent": agreement(latent, found.labels.tolist())
        if len(set(latent)) > 1
        else None,
        "mean_silhouette": _mean(silhouettes),
        "mean_ari_previous": _mean(agreements),
        "refreshes": len(seen),
    }


def _numbers(rows: Sequence[dict[str, str]], column: str) -> list[float | None]:
    return [float(row[column]) if row.get(column) else None for row in rows]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
