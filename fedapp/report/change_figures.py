"""Figures of HDC-FL over time: how much heads move, and how old entries are."""

from collections import Counter
from collections.abc import Sequence

from fedapp.report.axes import whole_rounds
from fedapp.report.drawing import INK, MAIN, MUTED, TAIL, Drawn, canvas, files_of
from fedapp.report.parts import AgeRow, RefreshRow


def change_lines(
    refreshes: Sequence[RefreshRow], *, most: float | None, least: float | None
) -> Drawn:
    """Draw the change of descriptors and of heads against their thresholds."""
    figure, panels = canvas(3.6, rows=(1, 1))
    rounds = [row.round for row in refreshes]
    active = [row.round for row in refreshes if row.active]
    for axes, key, title, colour, bound, words in (
        (
            panels[0],
            "descriptor_change",
            "descriptors, since the refresh before",
            MAIN,
            most,
            "at most",
        ),
        (
            panels[1],
            "head_change",
            "heads, since their common start",
            TAIL,
            least,
            "at least",
        ),
    ):
        values = [getattr(row, key) for row in refreshes]
        numbers = [float("nan") if v is None else v for v in values]
        axes.plot(rounds, numbers, "o-", color=colour, lw=1.6, ms=3.5)
        known = [v for v in values if v is not None and v < float("inf")]
        if bound is not None:
            axes.axhline(bound, color=INK, lw=1, ls="--")
            title += f" (dashed: stable if {words} {bound:g})"
        if not known:
            text = "nothing to compare with yet"
            axes.text(0.03, 0.1, text, transform=axes.transAxes, color=MUTED)
        axes.set_ylim(0, 1.15 * max([*known, bound or 0.0, 1e-3]))
        axes.set_title(title, loc="left", color=MUTED, size=9)
        axes.grid(axis="y")
        axes.set_ylabel("change")
        if active:
            axes.axvline(active[0], color=MAIN, lw=6, alpha=0.25)
    whole_rounds(panels[1], rounds)
    svg, png = files_of(figure)
    last = refreshes[-1]
    return Drawn(
        "changes",
        "How much the heads move",
        "Relative change of the inner products of descriptors from refresh to refresh, "
        "and median distance of heads from their start. " + _activation(refreshes),
        f"At round {last.round}: change of descriptors "
        f"{_number(last.descriptor_change)}, of heads {_number(last.head_change)}. "
        + _activation(refreshes),
        svg,
        png,
    )


def age_bars(rows: Sequence[AgeRow]) -> Drawn:
    """Draw how many entries have which age at the last refresh."""
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    last = max(row.round for row in rows)
    here = [row for row in rows if row.round == last]
    figure, (axes,) = canvas(2.8)
    used = Counter(row.age for row in here if row.in_prototypes)
    old = Counter(row.age for row in here if not row.in_prototypes)
    for counts, colour in ((used, MAIN), (old, MUTED)):
        axes.bar(list(counts), list(counts.values()), width=0.85, color=colour, lw=0)
    for place in (axes.xaxis, axes.yaxis):
        place.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.set_xlim(-0.7, max(row.age for row in here) + 0.7)
    axes.set_xlabel("rounds since the client last trained")
    axes.set_ylabel("clients")
    axes.grid(axis="y")
    if old:
        patches = [
            Patch(color=MAIN, label="counts in prototypes"),
            Patch(color=MUTED, label="too old for that"),
        ]
        figure.legend(handles=patches, loc="outside upper left", ncols=2)
    svg, png = files_of(figure)
    ages = sorted(row.age for row in here)
    middle = ages[len(ages) // 2]
    text = (
        f"{len(ages)} clients have an entry; half are older than {middle} rounds or as "
        f"old, the oldest is {ages[-1]}."
    )
    return Drawn(
        "ages",
        "How old the entries are",
        f"Rounds since each client last sent encoder and head, at round {last}."
        + (f" {sum(old.values())} are too old for prototypes." if old else ""),
        text,
        svg,
        png,
    )


def _activation(refreshes: Sequence[RefreshRow]) -> str:
    active = [row for row in refreshes if row.active]
    if not active:
        return "Personal encoders did not come into use."
    how = "" if active[0].stable else ", without stable groups"
    return f"Blue: personal encoders came into use at round {active[0].round}{how}."


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
