"""Figures of several runs: accuracy overlaid, differences client by client."""

from collections.abc import Mapping, Sequence

from fedapp.report.axes import client_ticks, per_cent_axis, tick_labels, whole_rounds
from fedapp.report.comparison import Paired
from fedapp.report.curves import Point
from fedapp.report.drawing import GROUPS, INK, MAIN, WORST, Drawn, canvas, files_of
from fedapp.report.words import per_cent, points_of

DASHES = ("-", "--", ":", "-.")
MARKS = ("o", "s", "^", "D", "v", "P", "X")


def overlaid(curves: Mapping[str, Sequence[Point]], *, key: str, title: str) -> Drawn:
    """Draw one accuracy (``mean``, ``worst``) of each run over rounds."""
    figure, (axes,) = canvas(3.2 + 0.17 * len(curves))
    ends = []
    for place, (label, points) in enumerate(curves.items()):
        rounds = [point.round for point in points]
        values = [getattr(point.accuracy, key) for point in points]
        axes.plot(
            rounds,
            [100 * value for value in values],
            color=GROUPS[place % len(GROUPS)],
            ls=DASHES[place % len(DASHES)],
            marker=MARKS[place % len(MARKS)] if len(rounds) <= 40 else "",
            ms=3.5,
            lw=1.7,
            label=label if len(label) <= 40 else f"…{label[-39:]}",
        )
        ends.append(f"{label} {per_cent(values[-1])} at round {rounds[-1]}")
    every_value = [getattr(p.accuracy, key) for c in curves.values() for p in c]
    per_cent_axis(axes, low=100 * min(every_value))
    every = sorted({point.round for points in curves.values() for point in points})
    whole_rounds(axes, every)
    figure.legend(loc="outside upper left", handlelength=2.6)
    svg, png = files_of(figure)
    return Drawn(
        f"compare-{key}",
        title,
        "Test accuracy at each evaluation; unseen clients are left out.",
        f"{title}: " + "; ".join(ends) + ".",
        svg,
        png,
    )


def difference_bars(
    found: Paired,
    names: Sequence[str],
    *,
    first: str,
    other: str,
    number: int,
    span: float,
) -> Drawn:
    """Draw the difference of each client between two runs, lowest first.

    ``span`` is the largest difference of any pair, so that all have one scale.
    """
    order = sorted(found.differences, key=lambda c: (found.differences[c], c))
    values = [100 * found.differences[client] for client in order]
    figure, (axes,) = canvas(2.9)
    places = list(range(len(order)))
    colours = [WORST if value < 0 else MAIN for value in values]
    width = 0.8 if len(order) <= 60 else 1.0
    axes.bar(places, values, width=width, color=colours)
    axes.axhline(0, color=INK, lw=0.8)
    axes.axhline(100 * found.mean, color=INK, lw=1, ls="--")
    axes.set_ylabel("difference (points)")
    axes.set_ylim(-105 * span, 105 * span)
    axes.set_xlabel("client")
    axes.grid(axis="y")
    axes.margins(x=0.02)
    client_ticks(axes, places, tick_labels([names[k] for k in order], order))
    svg, png = files_of(figure)
    better, alike, worse = found.counts
    return Drawn(
        f"compare-{number}",
        f"{other} minus {first}",
        f"Percentage points by client; dashed: the mean, {points_of(found.mean)}.",
        f"{better} clients do better, {alike} alike, {worse} worse; mean "
        f"{points_of(found.mean)} percentage points.",
        svg,
        png,
    )
