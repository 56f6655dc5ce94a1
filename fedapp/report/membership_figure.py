"""Figure of HDC-FL: how much each client belongs to each group."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedapp.report.axes import FEW, MANY, client_ticks, tick_labels
from fedapp.report.drawing import PAPER, Drawn, canvas, files_of
from fedapp.report.parts import MembershipRow, NewcomerRow
from fedapp.report.timeline import SHOWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Weights = dict[int, dict[int, float]]


def last_weights(rows: Sequence[MembershipRow | NewcomerRow]) -> Weights:
    """Return the memberships of each client by group, at the last round there is."""
    last = max((row.round for row in rows), default=0)
    found: Weights = {}
    for row in rows:
        if row.round == last:
            found.setdefault(row.client, {})[row.group] = row.membership
    return found


def membership_bars(
    weights: Weights,
    newcomers: Weights,
    *,
    assigned: Mapping[int, int],
    colours: Mapping[int, str],
    names: Sequence[str],
) -> Drawn:
    """Draw a stacked bar for each client, ordered by group, newcomers apart."""
    from matplotlib.patches import Patch

    given = {**weights, **newcomers}
    groups = sorted({group for row in given.values() for group in row})
    own = {k: assigned.get(k, strongest(row)) for k, row in weights.items()}
    known = sorted(weights, key=lambda k: (own[k], k))
    late = sorted(newcomers, key=lambda k: (strongest(newcomers[k]), k))
    shown = [*known, *late]
    gap = max(1, len(shown) // 40) if known and late else 0
    places = [i + (gap if i >= len(known) else 0) for i in range(len(shown))]
    figure, (axes,) = canvas(3.1)
    many = len(shown) > MANY
    for start, clients in ((0, known), (len(known) + gap, late)):
        rows = [given[k] for k in clients]
        _stack(axes, start, rows, groups, colours, many=many)
    for place in range(1, len(known)):
        if own[known[place]] != own[known[place - 1]]:
            axes.axvline(place - 0.5, color=PAPER, lw=2)
    client_ticks(axes, places, tick_labels([names[k] for k in shown], shown))
    if len(shown) > FEW:
        axes.tick_params(axis="x", length=0)
    axes.set_xlabel("client, by group" + ("; on the right: newcomers" if late else ""))
    axes.set_ylabel("membership (%)")
    axes.set_ylim(0, 100)
    axes.margins(x=0.02)
    figure.legend(
        handles=[Patch(color=colours[g], label=str(g)) for g in groups[:SHOWN]],
        loc="outside upper left",
        ncols=11,
        handlelength=0.9,
        columnspacing=0.9,
        handletextpad=0.4,
        title="group" if len(groups) <= SHOWN else f"group ({SHOWN} of {len(groups)})",
        alignment="left",
    )
    svg, png = files_of(figure)
    largest = [max(row.values()) for row in weights.values()]
    mean = 100 * sum(largest) / len(largest)
    return Drawn(
        "memberships",
        "How much each client belongs to each group",
        "Memberships at the last refresh: the shares of group encoders in a client's "
        f"personal encoder. The strongest is {mean:.0f} % on average."
        + _late(newcomers),
        f"{len(weights)} clients and {len(groups)} groups. The strongest membership of "
        f"a client is {mean:.0f} % on average, "
        f"{100 * min(largest):.0f} % at least." + _late(newcomers),
        svg,
        png,
    )


def _stack(
    axes: "Axes",
    start: int,
    rows: Sequence[Mapping[int, float]],
    groups: Sequence[int],
    colours: Mapping[int, str],
    *,
    many: bool,
) -> None:
    """Draw a bar for each row from ``start`` on; of ``many`` an area without gaps."""
    bottom = np.zeros(len(rows))
    for group in groups:
        top = bottom + [100 * row.get(group, 0.0) for row in rows]
        if many:
            edges = start - 0.5 + np.arange(len(rows) + 1)
            axes.stairs(top, edges, baseline=bottom, fill=True, color=colours[group])
        else:
            axes.bar(
                start + np.arange(len(rows)),
                top - bottom,
                bottom=bottom,
                width=0.85,
                color=colours[group],
                lw=0,
            )
        bottom = top


def _late(newcomers: Weights) -> str:
    if not newcomers:
        return ""
    placed = [k for k, row in newcomers.items() if sum(row.values()) > 0]
    who = "1 newcomer" if len(placed) == 1 else f"{len(placed)} newcomers"
    return f" On the right: {who}, placed by a head fitted on the shared encoder."


def strongest(row: Mapping[int, float]) -> int:
    """Return the group of largest membership, the first of equals."""
    return max(sorted(row), key=lambda group: row[group])
