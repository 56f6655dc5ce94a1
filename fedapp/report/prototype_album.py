"""Which figures a run of a prototype method has."""

from collections.abc import Iterator

from fedapp.report.drawing import Drawn
from fedapp.report.embeddings import Sample, sample_embeddings
from fedapp.report.folder import RunData
from fedapp.report.prototype_figures import (
    angles_between,
    drift_and_spread,
    maturity,
    prototype_map,
    pseudo_labels,
)
from fedapp.report.prototype_parts import Flat, flat, read_prototypes
from fedapp.workplace import cache_folder


def prototype_album(run: RunData, missing: list[str]) -> Iterator[Drawn]:
    """Yield the figures; ``missing`` gains a sentence for what cannot be read."""
    rows = run.prototypes
    if any(row.alignment_gradient is not None for row in rows):
        yield maturity(rows)
    if any(row.drift is not None for row in rows):
        yield drift_and_spread(rows)
    if any(row.angle_mean is not None for row in rows):
        yield angles_between(rows)
    if run.pseudo:
        yield pseudo_labels(run.pseudo)
    yield from _map(run, missing)


def _map(run: RunData, missing: list[str]) -> Iterator[Drawn]:
    method = str(run.settings.get("method", ""))
    try:
        found = read_prototypes(run.path, method)
    except (OSError, ValueError, KeyError) as error:
        missing.append(f"The prototypes cannot be read and are left out: {error}.")
        return
    if found is None or len(found[1]) < 2:
        return
    values, classes = found
    sample = _sample(run, missing)
    if sample is None or sample.rows.shape[1] != values.shape[1]:
        yield prototype_map(flat(values, classes))
        return
    # One plane for both: that of the prototypes.
    both = flat(values, classes, also=sample.rows)
    cut = len(classes)
    yield prototype_map(
        Flat(both.points[:cut], classes, both.shown),
        Flat(both.points[cut:], sample.classes, both.shown),
        silhouette=sample.silhouette,
    )


def _sample(run: RunData, missing: list[str]) -> Sample | None:
    if run.manifest is None or run.settings.get("method") not in ("fedproto", "fedsap"):
        return None
    try:
        return sample_embeddings(
            run.path,
            run.manifest,
            dict(run.settings),
            cache=cache_folder(),
            rounds=run.whole_rounds,
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        missing.append(f"A sample of embeddings cannot be made: {error}.")
        return None
