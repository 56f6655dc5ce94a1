"""Figures of a donor swap: similarity against gain, and the two matrices."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedapp.report.drawing import (
    GROUPS,
    INK,
    PAPER,
    WORST,
    Drawn,
    canvas,
    files_of,
    side_by_side,
)
from fedapp.report.parts import SwapRow
from fedapp.report.reading import read_rows
from fedapp.report.studies import SWAP

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Matrix = NDArray[np.float64]

BINS = 10
"""Parts of equal size, by similarity, whose mean gain is drawn."""
MANY = 2000
"""Pairs above which marks are pixels: an SVG of them would be megabytes."""
EXTREME = 98
"""Per cent of gains whose colours differ; larger ones have the last colour."""


def swap_figures(
    path: Path, groups: Sequence[int], missing: list[str]
) -> Iterator[Drawn]:
    """Yield the figures of a run's donor swap, if it has one.

    ``groups`` has the latent group of each client, or is empty.
    """
    rows = read_rows(path, f"{SWAP}.csv", SwapRow, missing, "")
    if not rows:
        return
    latent = len(set(groups)) > 1
    yield gain_figure(rows, latent=latent)
    yield matrices(rows, groups if latent else ())


def gain_figure(rows: Sequence[SwapRow], *, latent: bool) -> Drawn:
    """Draw the gain of every pair over the similarity of its heads."""
    what = "latent group" if latent else "group"
    same = np.array([r.same_latent_group if latent else r.same_group for r in rows])
    similarity = np.array([row.similarity for row in rows])
    gain = np.array([row.gain for row in rows])
    figure, (axes,) = canvas(3.5)
    for flag, colour, mark, name in (
        (False, GROUPS[1], "o", f"another {what}"),
        (True, GROUPS[0], "^", f"the same {what}"),
    ):
        here = same == flag
        axes.scatter(
            similarity[here],
            gain[here],
            s=12,
            marker=mark,
            color=colour,
            alpha=0.6,
            lw=0,
            rasterized=len(rows) > MANY,
            label=name,
        )
    parts = np.array_split(np.argsort(similarity, kind="stable"), min(BINS, len(rows)))
    axes.plot(
        [similarity[part].mean() for part in parts],
        [gain[part].mean() for part in parts],
        "-",
        color=INK,
        lw=1.6,
        label="mean of tenths" if len(parts) == BINS else "mean of parts",
    )
    axes.axhline(0, color=WORST, lw=0.9, ls="--")
    axes.set_xlabel("inner product of head descriptors")
    axes.set_ylabel("gain: own loss minus donor's")
    axes.grid(axis="y")
    figure.legend(loc="outside upper left", ncols=3, handlelength=1.4)
    svg, png = files_of(figure)
    helped = float(np.mean(gain > 0))
    return Drawn(
        "swap-gain",
        "Do similar heads make good donors?",
        "One mark for each target and donor: the target's own head under the donor's "
        "encoder. Above the dashed line the donor's encoder has the lower loss.",
        f"{len(rows)} pairs; {100 * helped:.1f} % have a gain. Mean gain of the least "
        f"similar part {gain[parts[0]].mean():+.3f}, of the most similar part "
        f"{gain[parts[-1]].mean():+.3f}.",
        svg,
        png,
    )


def matrices(rows: Sequence[SwapRow], groups: Sequence[int]) -> Drawn:
    """Draw similarity and gain as matrices in one order of clients, by group.

    Without latent ``groups`` the order is that of the groups that were found.
    """
    clients = sorted({row.target for row in rows})
    label = [groups[c] for c in clients] if groups else _found(rows, clients)
    order = sorted(range(len(clients)), key=lambda i: (label[i], clients[i]))
    similarity, gain = (
        _matrix(rows, clients, name)[np.ix_(order, order)]
        for name in ("similarity", "gain")
    )
    off = ~np.eye(len(clients), dtype=bool)
    far = float(np.percentile(np.abs(gain[off]), EXTREME)) or 1.0
    figure, (left, right) = side_by_side(2.9)
    shown = (
        (left, "similarity", similarity, "viridis", float(similarity[off].min()), 1.0),
        (right, "gain", gain, "RdBu", -far, far),
    )
    ordered = [label[i] for i in order]
    kind = "latent group" if groups else "group"
    for axes, title, values, colours, low, high in shown:
        image = axes.imshow(
            values, cmap=colours, vmin=low, vmax=high, interpolation="nearest"
        )
        axes.set_title(title, loc="left")
        figure.colorbar(image, ax=axes, location="bottom", pad=0.02, fraction=0.06)
        _mark_groups(axes, ordered, kind)
    left.set_ylabel("targets")
    svg, png = files_of(figure)
    return Drawn(
        "swap-matrices",
        "Similarity and gain, pair by pair",
        f"Targets in rows, donors in columns, both by {kind}. Left: inner products of "
        "head descriptors. Right: own loss minus that under the donor's encoder; blue "
        "is a gain. Where both have the same blocks, similar heads make good donors.",
        f"Two matrices of {len(clients)} clients. Similarity from "
        f"{similarity[off].min():.2f} to {similarity[off].max():.2f}; gain from "
        f"{gain[off].min():+.3f} to {gain[off].max():+.3f}.",
        svg,
        png,
    )


def _mark_groups(axes: "Axes", ordered: Sequence[int], kind: str) -> None:
    edges = [i for i in range(1, len(ordered)) if ordered[i] != ordered[i - 1]]
    for edge in edges:
        axes.axvline(edge - 0.5, color=PAPER, lw=1.2)
        axes.axhline(edge - 0.5, color=PAPER, lw=1.2)
    bounds = [0, *edges, len(ordered)]
    middles = [(start + end - 1) / 2 for start, end in pairwise(bounds)]
    names = [str(ordered[start]) for start in bounds[:-1]]
    axes.set_xticks(middles, names)
    axes.set_yticks(middles, names)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xlabel(f"donors, by {kind}")


def _matrix(rows: Sequence[SwapRow], clients: Sequence[int], name: str) -> Matrix:
    """Return one column of the pairs as a matrix; the own encoder has 1, or gain 0."""
    place = {client: index for index, client in enumerate(clients)}
    found = (
        np.eye(len(clients)) if name == "similarity" else np.zeros((len(clients),) * 2)
    )
    for row in rows:
        found[place[row.target], place[row.donor]] = getattr(row, name)
    return found


def _found(rows: Sequence[SwapRow], clients: Sequence[int]) -> list[int]:
    """Return the group of each client: the place of the first client it is with."""
    mates = {(row.target, row.donor) for row in rows if row.same_group}
    firsts = [next((d for d in clients if (c, d) in mates), c) for c in clients]
    first = [min(c, mate) for c, mate in zip(clients, firsts, strict=True)]
    return [sorted(set(first)).index(f) for f in first]
