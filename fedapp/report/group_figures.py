"""Figures of HDC-FL: how alike heads are, and how stable the groups."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from fedapp.report.axes import whole_rounds
from fedapp.report.drawing import MAIN, PAPER, TAIL, WORST, Drawn, canvas, files_of
from fedapp.report.parts import RefreshRow
from fedapp.report.similarity import Similarity


def similarity_matrix(found: Similarity, groups: Mapping[int, int]) -> Drawn:
    """Draw inner products of head descriptors, clients ordered by group."""
    nowhere = max(groups.values(), default=0) + 1
    label = [groups.get(client, nowhere) for client in found.clients]
    order = sorted(range(len(label)), key=lambda i: (label[i], found.clients[i]))
    values = found.values[np.ix_(order, order)]
    figure, (axes,) = canvas(4.3)
    off = values[~np.eye(len(values), dtype=bool)]
    image = axes.imshow(
        values, cmap="viridis", vmin=float(off.min()), vmax=1.0, interpolation="nearest"
    )
    ordered = [label[i] for i in order]
    edges = [i for i in range(1, len(order)) if ordered[i] != ordered[i - 1]]
    for edge in edges:
        axes.axvline(edge - 0.5, color=PAPER, lw=1.2)
        axes.axhline(edge - 0.5, color=PAPER, lw=1.2)
    bounds = [0, *edges, len(order)]
    middles = [(start + end - 1) / 2 for start, end in pairwise(bounds)]
    titles = ["-" if ordered[b] == nowhere else str(ordered[b]) for b in bounds[:-1]]
    axes.set_xticks(middles, titles)
    axes.set_yticks(middles, titles)
    axes.set_xlabel("clients, by group")
    axes.set_ylabel("clients, by group")
    figure.colorbar(image, ax=axes, label="inner product", pad=0.02, fraction=0.06)
    svg, png = files_of(figure)
    label_row = np.array(ordered)
    same = (label_row[:, None] == label_row) & ~np.eye(len(order), dtype=bool)
    other = label_row[:, None] != label_row
    inside = f"{values[same].mean():.2f}" if same.any() else "-"
    outside = f"{values[other].mean():.2f}" if other.any() else "-"
    return Drawn(
        "similarity",
        "How alike the heads are",
        f"Inner products of the clients' {found.of}, clients ordered by group. Mean "
        f"within groups {inside}, between groups {outside}.",
        f"Matrix of {len(order)} clients. Mean inner product within groups {inside}, "
        f"between groups {outside}.",
        svg,
        png,
    )


def refresh_lines(refreshes: Sequence[RefreshRow]) -> Drawn:
    """Draw the number of groups, silhouette and agreement at each refresh."""
    from matplotlib.ticker import MaxNLocator

    figure, (top, axes) = canvas(3.6, rows=(1, 2))
    rounds = [row.round for row in refreshes]
    top.plot(rounds, [r.groups for r in refreshes], "o-", color=MAIN, lw=1.6, ms=3.5)
    top.set_ylabel("groups")
    top.set_ylim(0, 1.25 * max(r.groups for r in refreshes))
    top.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
    top.grid(axis="y")
    lines = (
        ("silhouette", "silhouette", MAIN, "o-"),
        ("ari_previous", "ARI, refresh before", TAIL, "s--"),
        ("ari_latent", "ARI, latent groups", WORST, "^:"),
    )
    for key, label, colour, mark in lines:
        values = [getattr(row, key) for row in refreshes]
        if any(value is not None for value in values):
            numbers = [float("nan") if v is None else v for v in values]
            axes.plot(rounds, numbers, mark, color=colour, lw=1.6, ms=3.5, label=label)
    active = [row.round for row in refreshes if row.active]
    for panel in (top, axes):
        if active and active[0] < rounds[-1]:
            panel.axvspan(active[0], rounds[-1], color=MAIN, alpha=0.1, lw=0)
    low = min(0.0, axes.get_ylim()[0])
    axes.set_ylim(low - 0.05, 1.05)
    axes.grid(axis="y")
    whole_rounds(axes, rounds)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles, labels, loc="outside upper left", ncols=2, handlelength=2
        )
    svg, png = files_of(figure)
    last = refreshes[-1]
    return Drawn(
        "refreshes",
        "Groups over refreshes",
        "Number of groups; silhouette; adjusted Rand index (1: the same groups) "
        "against the refresh before and the latent groups. " + _use(active, rounds[-1]),
        f"At the last refresh, round {last.round}: {last.groups} groups, silhouette "
        f"{_number(last.silhouette)}, ARI {_number(last.ari_previous)} to the refresh "
        f"before and {_number(last.ari_latent)} to latent groups.",
        svg,
        png,
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _use(active: Sequence[int], last: int) -> str:
    if not active:
        return "Personal encoders were not used."
    if active[0] == last:
        return f"Personal encoders were used at round {last} only."
    return f"Shaded from round {active[0]}: personal encoders are in use."
