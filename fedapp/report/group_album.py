"""Figures of HDC-FL's groups, and in sentences why one is not there."""

from collections.abc import Iterator, Sequence

from fedapp.report.change_figures import age_bars, change_lines
from fedapp.report.count_figures import silhouette_curves, spectrum_bars
from fedapp.report.drawing import Drawn
from fedapp.report.folder import RunData
from fedapp.report.group_accuracy import group_accuracy
from fedapp.report.group_figures import refresh_lines, similarity_matrix
from fedapp.report.map_figure import descriptor_map
from fedapp.report.membership_figure import last_weights, membership_bars
from fedapp.report.similarity import Similarity, head_similarity, refresh_similarity
from fedapp.report.timeline import assigned, group_colours, group_timeline

MATRIX = 300
"""Most clients whose inner products are drawn as a matrix."""


def group_album(
    run: RunData, names: Sequence[str], latent: Sequence[int], missing: list[str]
) -> Iterator[Drawn]:
    """Yield the figures of a run with refreshes; ``missing`` is added to.

    ``names`` and ``latent`` have every client's name and, if known, latent group.
    """
    groups = assigned(run.memberships)
    colours = group_colours(groups)
    last = groups[max(groups)] if groups else {}
    weights = last_weights(run.memberships)
    # Who was a newcomer earlier may have trained since.
    late = last_weights([row for row in run.newcomers if row.round == run.evaluated])
    results = run.results
    sampled = run.refreshes[-1].sampled
    if sampled:
        results = tuple(c for c in results if c.client in {**weights, **late})
        missing.append(
            f"Groups were formed of so many clients that figures show {len(weights)} "
            "of them, a sample; who was in which group over rounds is left out. "
            "final/state.safetensors has all memberships."
        )
    found = _similarity(run, missing)
    if groups and not sampled:
        yield group_timeline(groups, clients=len(names), latent=latent, names=names)
    if found is not None:
        yield descriptor_map(found, last, colours=colours, latent=latent, names=names)
    if groups:
        yield membership_bars(
            weights, late, assigned=last, colours=colours, names=names
        )
    if groups and results:
        yield group_accuracy(results, last, late, colours=colours)
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
        if len(found.clients) <= MATRIX:
            yield similarity_matrix(found, last)
        else:
            missing.append(
                f"The matrix of inner products of {len(found.clients)} clients is left "
                f"out: it is drawn for {MATRIX} at most."
            )
    if any(row.age for row in run.ages):
        yield age_bars(run.ages)


def _setting(run: RunData, name: str) -> float | None:
    found = run.settings.get(f"hdc-fl.{name}")
    return None if found is None else float(found)


def _similarity(run: RunData, missing: list[str]) -> Similarity | None:
    """Return how alike heads are: from the bank, unless it has none or very many."""
    sketches = run.settings.get("hdc-fl.exchange") == "sketch"
    if sketches or run.refreshes[-1].sampled:
        return _at_refresh(run, "sketches" if sketches else "descriptors", missing)
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


def _at_refresh(run: RunData, what: str, missing: list[str]) -> Similarity | None:
    state = run.path / "final" / "state.safetensors"
    try:
        found = refresh_similarity(state, of=f"{what} at the last refresh")
    except (OSError, ValueError, KeyError) as error:
        missing.append(f"The {what} cannot be read and are left out: {error}.")
        return None
    if found is None:
        missing.append(f"There are no {what}: how alike the heads are is open.")
    return found
