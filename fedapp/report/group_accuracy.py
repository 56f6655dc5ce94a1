"""Figure of HDC-FL: how the clients of each group did."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedapp.report.axes import per_cent_axis
from fedapp.report.drawing import GRID, INK, PAPER, Drawn, canvas, files_of
from fedapp.report.membership_figure import Weights, strongest
from fedapp.report.parts import ClientResult
from fedapp.report.words import per_cent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOWHERE = "none"


def group_accuracy(
    results: Sequence[ClientResult],
    groups: Mapping[int, int],
    newcomers: Weights,
    *,
    colours: Mapping[int, str],
) -> Drawn:
    """Draw the accuracy of each client in a column for its group, with group means.

    A newcomer stands hollow in the column of its strongest membership and does not
    count in the mean; clients in no group have a column of their own.
    """
    columns: dict[str, list[ClientResult]] = {
        str(g): [] for g in sorted({*groups.values()})
    }
    late: dict[str, list[ClientResult]] = {}
    for client in results:
        weights = newcomers.get(client.client, {})
        if client.client in groups:
            columns[str(groups[client.client])].append(client)
        elif sum(weights.values()) > 0:
            late.setdefault(str(strongest(weights)), []).append(client)
        else:
            columns.setdefault(NOWHERE, []).append(client)
    shade = {str(g): colour for g, colour in colours.items()} | {NOWHERE: GRID}
    figure, (axes,) = canvas(3.1)
    lines = []
    for place, (name, members) in enumerate(columns.items()):
        _dots(axes, place, members, fill=shade[name])
        beside = late.get(name, [])
        _dots(axes, place + 0.38, beside, fill=PAPER, edge=shade[name], wide=0.08)
        if members:
            mean = sum(c.accuracy for c in members) / len(members)
            axes.hlines(100 * mean, place - 0.36, place + 0.36, color=INK, lw=1.6)
            lines.append(f"group {name}: {len(members)} clients, mean {per_cent(mean)}")
    lowest = min(100 * c.accuracy for c in results)
    per_cent_axis(axes, low=lowest)
    counts = [f"{name}\nn = {len(members)}" for name, members in columns.items()]
    axes.set_xticks(range(len(columns)), counts)
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.set_xlabel("group, and its number of clients")
    svg, png = files_of(figure)
    hollow = sum(map(len, late.values()))
    return Drawn(
        "group-accuracy",
        "Accuracy by group",
        "Accuracy of each client at the last evaluation, in the column of its group; "
        "line: the group's mean."
        + (" Hollow: newcomers, not in the mean." if hollow else ""),
        "; ".join(lines) + ".",
        svg,
        png,
    )


def _dots(
    axes: "Axes",
    place: float,
    members: Sequence[ClientResult],
    *,
    fill: str,
    edge: str = INK,
    wide: float = 0.56,
) -> None:
    """Draw accuracies in a column, spread sideways in the order given."""
    count = len(members)
    # Steps of the golden section keep any number of dots apart.
    spread = [wide * ((0.5 + i * 0.618) % 1 - 0.5) for i in range(count)]
    axes.plot(
        [place + offset for offset in spread],
        [100 * client.accuracy for client in members],
        "o",
        color=fill,
        mec=edge,
        mew=0.5 if edge == INK else 1.6,
        ms=6 if count <= 40 else 4,
        alpha=0.9,
        # A dot at 100 % is whole.
        clip_on=False,
    )
