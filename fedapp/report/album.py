"""Which figures a run has, drawn from what its folder holds."""

from collections.abc import Iterator, Sequence

from fedapp.report.change_figures import age_bars, change_lines
from fedapp.report.client_figures import client_bars, label_histogram
from fedapp.report.count_figures import silhouette_curves, spectrum_bars
from fedapp.report.curves import points
from fedapp.report.drawing import STYLE, Drawn
from fedapp.report.figures import accuracy_over_rounds, costs
from fedapp.report.folder import RunData
from fedapp.report.group_accuracy import group_accuracy
from fedapp.report.group_figures import refresh_lines, similarity_matrix
from fedapp.report.map_figure import descriptor_map
from fedapp.report.membership_figure import last_weights, membership_bars
from fedapp.report.prototype_album import prototype_album
from fedapp.report.similarity import (
    Similarity,
    head_similarity,
    sketch_similarity,
)
from fedapp.report.statistic_figures import (
    accuracy_by_samples,
    read_statistics,
    statistics_map,
)
from fedapp.report.swap_figures import swap_figures
from fedapp.report.timeline import assigned, group_colours, group_timeline


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
        yield from _group_figures(run, names, missing)
    yield from swap_figures(run.path, latent_of(run), missing)
    if run.prototypes:
        yield from prototype_album(run, missing)
    if summary.seconds.total > 0:
        yield costs(summary.traffic, summary.seconds)


def _by_samples(run: RunData) -> Iterator[Drawn]:
    samples = [len(plan.train) for plan in run.manifest.clients] if run.manifest else []
    if run.results and len(samples) >= run.clients and len(set(samples)) > 1:
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


def _group_figures(
    run: RunData, names: Sequence[str], missing: list[str]
) -> Iterator[Drawn]:
    groups, latent = assigned(run.memberships), latent_of(run)
    colours = group_colours(groups)
    last = groups[max(groups)] if groups else {}
    weights = last_weights(run.memberships)
    # Who was a newcomer earlier may have trained since.
    late = last_weights([row for row in run.newcomers if row.round == run.evaluated])
    found = _similarity(run, missing)
    if groups:
        yield group_timeline(groups, clients=len(names), latent=latent, names=names)
    if found is not None:
        yield descriptor_map(found, last, colours=colours, latent=latent, names=names)
    if groups:
        yield membership_bars(
            weights, late, assigned=last, colours=colours, names=names
        )
    if groups and run.results:
        yield group_accuracy(run.results, last, late, colours=colours)
    yield refresh_lines(run.refreshes)
    yield change_lines(
        run.refreshes,
        most=_setting(run, "max-change"),
        least=_setting(run, "min-head-change"),
    )
    if run.silhouettes:
        floor = _setting(run, "min-silhouette")
        yield silhouette_curves(run.silhouettes, floor=floor)
    if run.spectrum:
        energy = None if _setting(run, "rank") else _setting(run, "energy")
        yield spectrum_bars(run.spectrum, energy=energy)
    if found is not None:
        yield similarity_matrix(found, last)
    if any(row.age for row in run.ages):
        yield age_bars(run.ages)


def _setting(run: RunData, name: str) -> float | None:
    found = run.settings.get(f"hdc-fl.{name}")
    return None if found is None else float(found)


def _similarity(run: RunData, missing: list[str]) -> Similarity | None:
    if run.settings.get("hdc-fl.exchange") == "sketch":
        return _sketch_similarity(run, missing)
    try:
        found = head_similarity(
            run.path / "bank",
            rounds=run.whole_rounds,
            energy=float(run.settings["hdc-fl.energy"]),
            rank=int(run.settings["hdc-fl.rank"]),
        )
    except (OSError, ValueError, KeyError) as error:
        missing.append(f"The heads in bank/ cannot be read and are left out: {error}.")
        return None
    if found is None:
        missing.append("bank/ holds fewer than two heads: how alike they are is open.")
    return found


def _sketch_similarity(run: RunData, missing: list[str]) -> Similarity | None:
    try:
        found = sketch_similarity(run.path / "final" / "state.safetensors")
    except (OSError, ValueError, KeyError) as error:
        missing.append(f"The sketches cannot be read and are left out: {error}.")
        return None
    if found is None:
        missing.append("There are no sketches: how alike the heads are is open.")
    return found
