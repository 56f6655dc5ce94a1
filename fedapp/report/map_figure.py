"""Figure of HDC-FL: a flat map of the clients' head descriptors."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from fedapp.hdc.heads import Array
from fedapp.report.axes import FEW, sparse, tick_labels
from fedapp.report.drawing import GRID, INK, MUTED, Drawn, canvas, files_of
from fedapp.report.similarity import Similarity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHAPES = "osD^vPX*"
"""Marks of latent groups; more groups than these are not told apart."""
MOST = 1000
"""Most clients on a map; evenly spaced ones are taken of more."""


def principal_plane(similarity: Array) -> tuple[Array, tuple[float, float]]:
    """Return the first two principal components (n x 2) and their shares of variance.

    ``similarity`` holds inner products (n x n): the eigenvectors of the centred matrix
    are the components of the vectors themselves. Each points so that its largest entry,
    the first of equals, is positive.
    """
    n = len(similarity)
    centre = np.eye(n) - 1 / n
    with threadpool_limits(limits=1):
        values, vectors = np.linalg.eigh(centre @ similarity @ centre)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1][:, :2]
    size = np.abs(vectors)
    first = np.argmax(size >= size.max(axis=0) * (1 - 1e-8), axis=0)
    signs = np.sign(vectors[first, range(2)])
    total = float(values.sum())
    # Distances below rounding of inner products of unit vectors are none.
    if total < 1e-9 * n:
        return np.zeros((n, 2)), (0.0, 0.0)
    shares = float(values[0]) / total, float(values[1]) / total
    return vectors * signs * np.sqrt(values[:2]), shares


def beside(points: Array, *, step: float = 0.07) -> list[Array]:
    """Return for each point (n x 2) the direction in which its label has most room.

    Labels lie ``step`` away; those placed before count as points.
    """
    angles = np.pi / 4 * np.arange(8)
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    taken = points
    found = []
    for i, point in enumerate(points):
        others = np.delete(taken, i, axis=0)
        places = point + step * around
        gaps = np.linalg.norm(places[:, None] - others[None], axis=2)
        # Room beyond three steps is as good as any, so that labels alone stand alike.
        room = np.minimum(gaps.min(axis=1, initial=np.inf), 3 * step)
        best = int(np.argmax(room > room.max() - 1e-9))
        found.append(around[best])
        taken = np.vstack([taken, places[best]])
    return found


def descriptor_map(
    found: Similarity,
    groups: Mapping[int, int],
    *,
    colours: Mapping[int, str],
    latent: Sequence[int],
    names: Sequence[str],
) -> Drawn:
    """Draw each client where its head lies: colour by group, shape by latent group."""
    kept = sparse(len(found.clients), MOST)
    clients = [found.clients[i] for i in kept]
    points, shares = principal_plane(found.values[np.ix_(kept, kept)])
    kinds = sorted(set(latent)) if latent else []
    shaped = 1 < len(kinds) <= len(SHAPES)
    figure, (axes,) = canvas(4.1)
    for (x, y), client in zip(points, clients, strict=True):
        group = groups.get(client)
        axes.plot(
            x,
            y,
            SHAPES[kinds.index(latent[client])] if shaped else "o",
            color=GRID if group is None else colours[group],
            mec=INK,
            mew=0.5,
            ms=8 if len(clients) <= FEW else 5,
            alpha=0.9,
        )
    middle = (points.max(axis=0) + points.min(axis=0)) / 2
    reach = 1.18 * max(float(np.abs(points - middle).max()), 1e-3)
    axes.set_xlim(middle[0] - reach, middle[0] + reach)
    axes.set_ylim(middle[1] - reach, middle[1] + reach)
    if len(clients) <= FEW:
        labels = tick_labels([names[k] for k in clients], clients)
        for spot, (x, y), label in zip(
            beside(points / reach), points, labels, strict=True
        ):
            axes.annotate(
                label,
                (x, y),
                xytext=(11 * spot[0], 11 * spot[1]),
                textcoords="offset points",
                ha="center",
                va="center",
                size=8,
            )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right"]].set_visible(True)
    axes.set_xlabel(f"first component, {100 * shares[0]:.0f} % of variance")
    axes.set_ylabel(f"second, {100 * shares[1]:.0f} %")
    _legend(figure, clients, groups, colours, kinds if shaped else [])
    svg, png = files_of(figure)
    some = "" if len(kept) == len(found.clients) else f" {len(kept)} clients shown."
    return Drawn(
        "map",
        "Map of the heads",
        f"Principal components of the {found.of}: clients near each other have heads "
        "alike." + (" Shapes are latent groups." if shaped else "") + some,
        f"{len(clients)} clients in a plane that holds "
        f"{100 * (shares[0] + shares[1]):.0f} % of the variance of their descriptors. "
        "How alike they are stands in the matrix of inner products.",
        svg,
        png,
    )


def _legend(
    figure: "Figure",
    clients: Sequence[int],
    groups: Mapping[int, int],
    colours: Mapping[int, str],
    kinds: Sequence[int],
) -> None:
    from matplotlib.lines import Line2D

    present = sorted({groups[k] for k in clients if k in groups})
    handles = [
        Line2D([], [], marker="o", ls="", color=colours[g], mec=INK, mew=0.5, label=g)
        for g in present[:9]
    ]
    if any(k not in groups for k in clients):
        handles.append(
            Line2D([], [], marker="o", ls="", color=GRID, mec=INK, mew=0.5, label="-")
        )
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=10,
        handletextpad=0.1,
        columnspacing=0.9,
        title="group",
        alignment="left",
    )
    if kinds:
        marks = [
            Line2D([], [], marker=SHAPES[i], ls="", color=MUTED, label=str(kind))
            for i, kind in enumerate(kinds)
        ]
        figure.legend(
            handles=marks,
            loc="outside upper right",
            ncols=8,
            handletextpad=0.1,
            columnspacing=0.9,
            title="latent",
            alignment="left",
        )
