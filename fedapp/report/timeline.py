"""Figure of HDC-FL: the group of each client at each refresh."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedapp.report.axes import FEW, sparse, tick_labels
from fedapp.report.drawing import GRID, GROUPS, PAPER, Drawn, canvas, files_of
from fedapp.report.parts import MembershipRow

SHOWN = 9
"""Most groups in a legend."""
CELLS = 600
"""Most cells of a timeline that have their group's number written in them."""


def assigned(memberships: Sequence[MembershipRow]) -> dict[int, dict[int, int]]:
    """Return the group of each client at each refresh, by round."""
    found: dict[int, dict[int, int]] = {}
    for row in memberships:
        here = found.setdefault(row.round, {})
        if row.assigned:
            here[row.client] = row.group
    return found


def group_ids(groups: Mapping[int, Mapping[int, int]]) -> list[int]:
    """Return every group that ever was, in the order in which colours are given out.

    The groups that exist now come first, so that no two of them share a colour.
    """
    now = sorted(set(groups[max(groups)].values())) if groups else []
    ever = {group for row in groups.values() for group in row.values()}
    return [*now, *sorted(ever.difference(now))]


def group_colours(groups: Mapping[int, Mapping[int, int]]) -> dict[int, str]:
    """Return the colour of every group that ever was."""
    return {g: GROUPS[i % len(GROUPS)] for i, g in enumerate(group_ids(groups))}


def group_timeline(
    groups: Mapping[int, Mapping[int, int]],
    *,
    clients: int,
    latent: Sequence[int],
    names: Sequence[str],
) -> Drawn:
    """Draw the group of each client (rows, by latent group) at each refresh."""
    from matplotlib.colors import ListedColormap, NoNorm
    from matplotlib.patches import Patch

    rounds = sorted(groups)
    order = sorted(range(clients), key=lambda k: (latent[k] if latent else 0, k))
    ids = group_ids(groups)
    # 0 stands for no group, then one colour per group.
    cells = np.array(
        [
            [ids.index(groups[r][k]) + 1 if k in groups[r] else 0 for r in rounds]
            for k in order
        ]
    )
    colours = [GRID, *group_colours(groups).values()]
    high = 5.2 if clients > FEW else max(2.6, 0.17 * clients + 1.2)
    figure, (axes,) = canvas(high)
    axes.imshow(
        cells,
        aspect="auto",
        cmap=ListedColormap(colours),
        norm=NoNorm(),
        interpolation="nearest",
    )
    if cells.size <= CELLS and clients <= FEW and len(rounds) <= 20:
        for (row, column), cell in np.ndenumerate(cells):
            text = str(ids[cell - 1]) if cell else "-"
            axes.text(
                column,
                row,
                text,
                ha="center",
                va="center",
                size=8,
                color="black",
            )
    for place in range(1, clients):
        if latent and latent[order[place]] != latent[order[place - 1]]:
            axes.axhline(place - 0.5, color=PAPER, lw=2)
    shown = sparse(len(rounds), 10)
    axes.set_xticks(shown, [str(rounds[i]) for i in shown])
    axes.set_xlabel("round of the refresh")
    by_latent = ", by latent group" if len(set(latent)) > 1 else ""
    axes.set_ylabel(f"client{by_latent}")
    if clients <= FEW:
        axes.set_yticks(range(clients), tick_labels([names[k] for k in order], order))
    else:
        axes.set_yticks([])
    patches = [
        Patch(color=colours[i + 1], label=str(g)) for i, g in enumerate(ids[:SHOWN])
    ]
    if 0 in cells:
        patches.append(Patch(color=GRID, label="none"))
    figure.legend(
        handles=patches,
        loc="outside upper left",
        ncols=11,
        handlelength=0.9,
        columnspacing=0.9,
        handletextpad=0.4,
        title="group" if len(ids) <= SHOWN else f"group ({SHOWN} of {len(ids)})",
        alignment="left",
    )
    svg, png = files_of(figure)
    last = groups[rounds[-1]]
    sizes = {g: list(last.values()).count(g) for g in sorted(set(last.values()))}
    return Drawn(
        "groups",
        "Group of each client",
        "The group of each client at each refresh. A number stays with a group from "
        "refresh to refresh" + ("; lines divide latent groups." if by_latent else "."),
        f"{len(rounds)} refreshes. At the last, round {rounds[-1]}: "
        + ", ".join(f"group {g} has {n} clients" for g, n in sizes.items())
        + ".",
        svg,
        png,
    )
