"""Which figures a run has, drawn from what its folder holds."""

from collections.abc import Iterator

from fedapp.report.client_figures import client_bars, label_histogram
from fedapp.report.curves import points
from fedapp.report.drawing import STYLE, Drawn
from fedapp.report.figures import accuracy_over_rounds, costs
from fedapp.report.folder import RunData
from fedapp.report.group_album import group_album
from fedapp.report.prototype_album import prototype_album
from fedapp.report.statistic_figures import (
    accuracy_by_samples,
    read_statistics,
    statistics_map,
    unlike,
)
from fedapp.report.swap_figures import swap_figures


def draw(run: RunData) -> tuple[list[Drawn], list[str]]:
    """Return the figures of a run, and in sentences why one is not there."""
    from matplotlib import rc_context

    missing: list[str] = []
    with rc_context(STYLE):
        return list(_figures(run, missing)), missing


def names_of(run: RunData) -> list[str]:
    """Return the name of each client, by number."""
    known = {c.client: c.name for c in run.results}
    planned = len(run.manifest.clients) if run.manifest else 0
    count = max(run.clients, planned, max(known, default=-1) + 1)
    return [known.get(client, str(client)) for client in range(count)]


def latent_of(run: RunData) -> list[int]:
    """Return the latent group of each client by number, or nothing if not known."""
    groups = [plan.group for plan in run.manifest.clients] if run.manifest else []
    return groups if len(groups) == len(names_of(run)) else []


def _figures(run: RunData, missing: list[str]) -> Iterator[Drawn]:
    names, summary = names_of(run), run.summary
    curve = points(run.scores, unseen_from=run.unseen_from)
    if curve:
        yield accuracy_over_rounds(curve)
    if run.results:
        yield client_bars(run.results, unseen_from=run.unseen_from)
    if run.manifest is not None:
        yield label_histogram(run.manifest, names=names)
        yield from _by_samples(run)
    yield from _statistics(run, missing)
    if run.refreshes:
        yield from group_album(run, names, latent_of(run), missing)
    yield from swap_figures(run.path, latent_of(run), missing)
    if run.prototypes:
        yield from prototype_album(run, missing)
    if summary.seconds.total > 0:
        yield costs(summary.traffic, summary.seconds)


def _by_samples(run: RunData) -> Iterator[Drawn]:
    samples = [len(plan.train) for plan in run.manifest.clients] if run.manifest else []
    if run.results and len(samples) >= run.clients and unlike(samples):
        yield accuracy_by_samples(run.results, samples)


def _statistics(run: RunData, missing: list[str]) -> Iterator[Drawn]:
    try:
        found = read_statistics(run.path)
    except ValueError as error:
        missing.append(f"The statistics of clients are left out: {error}.")
        return
    groups = latent_of(run)
    if found is not None and len(found) == len(groups) > 1:
        yield statistics_map(found, groups, unseen_from=run.unseen_from)
