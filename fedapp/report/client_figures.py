"""Figures of clients: how each did, who has which labels."""

from collections.abc import Sequence

import numpy as np

from fedapp.data.manifest import Manifest
from fedapp.report.axes import MANY, client_ticks, shortened, sparse, tick_labels
from fedapp.report.drawing import (
    GROUPS,
    INK,
    MAIN,
    MUTED,
    PAPER,
    WORST,
    Drawn,
    canvas,
    files_of,
)
from fedapp.report.parts import ClientResult
from fedapp.report.ranking import apart, counted
from fedapp.report.words import per_cent


def client_bars(clients: Sequence[ClientResult], *, unseen_from: int) -> Drawn:
    """Draw each client's accuracy, lowest first, unseen clients apart.

    Colours of more than ``MANY`` clients would be noise if they alternated: those are
    sorted within latent groups.
    """
    from matplotlib.patches import Patch

    latent = sorted({c.latent_group for c in clients if c.latent_group is not None})
    by_group = len(clients) > MANY and len(latent) > 1
    seen, unseen = apart(clients, unseen_from=unseen_from)
    if by_group:
        seen, unseen = sorted(seen, key=_latent), sorted(unseen, key=_latent)
    shown = [*seen, *unseen]
    figure, (axes,) = canvas(3.3)
    gap = max(1, len(shown) // 40) if seen and unseen else 0
    places = [i + (gap if i >= len(seen) else 0) for i in range(len(shown))]
    for place, client in zip(places, shown, strict=True):
        colour = _colour(client.latent_group)
        axes.bar(
            place,
            100 * client.accuracy,
            width=0.8 if len(shown) <= MANY else 1.0,
            color=colour if client.trained else PAPER,
            edgecolor=colour,
            hatch="" if client.trained else "////",
            linewidth=0.8 if len(shown) <= MANY else 0.2,
        )
    ranked = counted(clients, unseen_from=unseen_from) or unseen
    worst, best = ranked[0], ranked[-1]
    mark = places[shown.index(worst)]
    axes.plot(mark, 100 * worst.accuracy + 4, "v", color=WORST, mec=PAPER, ms=8)
    axes.set_title(
        f"▼ worst: client {shortened(worst.name)}, {per_cent(worst.accuracy)}",
        loc="left",
    )
    if seen:
        mean = sum(c.accuracy for c in seen) / len(seen)
        axes.axhline(100 * mean, color=INK, lw=1, ls="--")
    labels = tick_labels([c.name for c in shown], [c.client for c in shown])
    client_ticks(axes, places, labels)
    axes.set_xlabel("client; those on the right are unseen" if gap else "client")
    axes.set_ylabel("accuracy (%)")
    axes.set_ylim(0, 104)
    axes.margins(x=0.02)
    if len(latent) > 1:
        patches = [Patch(color=_colour(g), label=str(g)) for g in latent[:10]]
        figure.legend(
            handles=patches,
            loc="outside upper left",
            ncols=10,
            title="latent group",
            alignment="left",
        )
    svg, png = files_of(figure)
    never = sum(not c.trained for c in seen)
    kinds = [f" Unseen clients: {len(unseen)}."] if unseen else []
    kinds += [f" Never trained so far: {never}."] if never else []
    order = "lowest first" + (", by latent group" if by_group else "")
    return Drawn(
        "clients",
        f"Every client, {order}",
        "Accuracy of each client at the last evaluation; dashed: the mean."
        + (" Colours are latent groups." if len(latent) > 1 else "")
        + (" Hatched: never trained." if never or unseen else ""),
        f"Bars of {len(shown)} clients from {per_cent(worst.accuracy)} (client "
        f"{worst.name}) to {per_cent(best.accuracy)} (client {best.name})."
        + "".join(kinds),
        svg,
        png,
    )


def label_histogram(manifest: Manifest, *, names: Sequence[str]) -> Drawn:
    """Draw what share of each client's training samples each class has."""
    plans = manifest.clients
    order = sorted(range(len(plans)), key=lambda k: (plans[k].group, k))
    counts = np.array([plans[k].histogram for k in order], dtype=np.float64)
    totals = counts.sum(axis=1)
    shares = 100 * counts / np.maximum(totals, 1)[:, None]
    figure, (top, axes) = canvas(3.7, rows=(1, 3))
    places = list(range(len(order)))
    if len(order) <= MANY:
        top.bar(places, totals, width=0.8, color=MUTED, lw=0)
    else:
        top.stairs(totals, np.arange(len(order) + 1) - 0.5, fill=True, color=MUTED)
    top.set_ylabel("samples")
    top.set_ylim(0, None)
    top.tick_params(axis="x", length=0)
    image = axes.imshow(
        shares.T, aspect="auto", cmap="viridis", vmin=0, interpolation="nearest"
    )
    groups = [plans[k].group for k in order]
    for place in range(1, len(order)):
        if groups[place] != groups[place - 1]:
            axes.axvline(place - 0.5, color=PAPER, lw=1.5)
    axes.set_ylabel("class")
    axes.set_yticks(sparse(manifest.classes, 10))
    client_ticks(axes, places, tick_labels([names[k] for k in order], order))
    axes.set_xlabel("client" + (", by latent group" if len(set(groups)) > 1 else ""))
    figure.colorbar(image, ax=[top, axes], label="share (%)", pad=0.02, fraction=0.06)
    svg, png = files_of(figure)
    held = (counts > 0).sum(axis=1)
    return Drawn(
        "labels",
        "Who has which labels",
        "Training samples of each client, and the share of each class among them, "
        "labels as the client sees them.",
        f"{len(order)} clients with {int(totals.min())} to {int(totals.max())} "
        f"training samples and {held.min()} to {held.max()} of {manifest.classes} "
        "classes.",
        svg,
        png,
    )


def _latent(client: ClientResult) -> int:
    return client.latent_group or 0


def _colour(group: int | None) -> str:
    return MAIN if group is None else GROUPS[group % len(GROUPS)]
