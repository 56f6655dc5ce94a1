"""Axes that several figures share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 30
"""Most clients that each get a label on an axis."""
MANY = 60
"""Most clients that each get a bar with space around it."""
SHORT = 6
"""Letters of the longest name that fits beside others on an axis."""
LINE = 30
"""Letters of the longest name that fits into a line."""


def sparse(count: int, most: int) -> list[int]:
    """Return at most about ``most`` evenly spaced places from 0 below ``count``."""
    step = next(
        s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10**9) if count <= most * s
    )
    return list(range(0, count, step))


def whole_rounds(axes: "Axes", rounds: Sequence[int]) -> None:
    """Label a round axis with rounds there were, or with whole numbers if many."""
    from matplotlib.ticker import MaxNLocator

    if len(rounds) <= 10:
        axes.set_xticks(rounds)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    if len(rounds) == 1:
        axes.set_xlim(rounds[0] - 1, rounds[0] + 1)
    axes.set_xlabel("round")


def per_cent_axis(axes: "Axes", *, low: float) -> None:
    """Label a y axis of accuracies, the lowest of which is ``low`` (per cent)."""
    # From 0 unless that would press everything against the top.
    axes.set_ylim(0 if low < 60 else 50, 101)
    axes.set_ylabel("accuracy (%)")
    axes.grid(axis="y")


def tick_labels(names: Sequence[str], clients: Sequence[int]) -> list[str]:
    """Return what names these clients on an axis: their numbers if names are long."""
    if all(len(name) <= SHORT for name in names):
        return list(names)
    return [str(client) for client in clients]


def client_ticks(axes: "Axes", places: Sequence[int], labels: Sequence[str]) -> None:
    """Name each client at its place, unless there are too many."""
    if len(places) <= FEW:
        upright = sum(len(label) + 1 for label in labels) > 50
        axes.set_xticks(places, labels, rotation=90 if upright else 0)
    else:
        axes.set_xticks([])


def shortened(name: str) -> str:
    """Return a name that fits into a line."""
    return name if len(name) <= LINE else f"{name[: LINE - 1]}…"
