"""Figures of HDC-FL: why so many groups, and why so many directions."""

from collections.abc import Sequence

from fedapp.report.axes import sparse
from fedapp.report.drawing import INK, MAIN, MUTED, WORST, Drawn, canvas, files_of
from fedapp.report.parts import SilhouetteRow, SpectrumRow


def silhouette_curves(rows: Sequence[SilhouetteRow], *, floor: float | None) -> Drawn:
    """Draw the silhouette of each group count, the last refresh before the others."""
    rounds = sorted({row.round for row in rows})
    figure, (axes,) = canvas(3.1)
    for place, round_ in enumerate(rounds, start=1):
        here = [row for row in rows if row.round == round_]
        last = round_ == rounds[-1]
        axes.plot(
            [row.groups for row in here],
            [row.silhouette for row in here],
            "o-",
            color=MAIN if last else MUTED,
            alpha=1.0 if last else 0.15 + 0.4 * place / len(rounds),
            lw=2 if last else 1,
            ms=4 if last else 2.5,
            zorder=3 if last else 2,
            label=f"round {round_}, the last" if last else None,
        )
    chosen = [r for r in rows if r.round == rounds[-1] and r.chosen]
    for row in chosen:
        axes.plot(
            row.groups, row.silhouette, "o", mfc="none", mec=WORST, ms=11, mew=1.6
        )
    if len(rounds) > 1:
        axes.plot([], [], "-", color=MUTED, alpha=0.5, lw=1, label="earlier refreshes")
    if floor is not None:
        label = f"one group below {floor:g}"
        axes.axhline(floor, color=INK, lw=1, ls="--", label=label)
    counts = sorted({row.groups for row in rows})
    axes.set_xticks([counts[i] for i in sparse(len(counts), 12)])
    if len(counts) == 1:
        axes.set_xlim(counts[0] - 1, counts[0] + 1)
    axes.set_xlabel("number of groups tried")
    axes.set_ylabel("mean silhouette")
    axes.grid(axis="y")
    figure.legend(loc="outside upper left", ncols=2, handlelength=2)
    svg, png = files_of(figure)
    found = (
        f"{chosen[0].groups} groups, silhouette {chosen[0].silhouette:.2f}"
        if chosen
        else "one group: no count reached the floor"
    )
    text = ", ".join(
        f"{row.groups} groups {row.silhouette:.2f}"
        for row in rows
        if row.round == rounds[-1]
    )
    return Drawn(
        "silhouettes",
        "Why so many groups",
        "How well the clients fall into each number of groups (mean silhouette, at "
        f"most 1). Chosen at the last refresh: {found}.",
        f"Mean silhouettes at round {rounds[-1]}: {text}. Chosen: {found}.",
        svg,
        png,
    )


def spectrum_bars(rows: Sequence[SpectrumRow], *, energy: float | None) -> Drawn:
    """Draw the share of head energy of each direction at the last refresh."""
    last = max(row.round for row in rows)
    here = [row for row in rows if row.round == last]
    places = [row.direction for row in here]
    shares = [100 * row.share for row in here]
    sums = [sum(shares[: i + 1]) for i in range(len(shares))]
    rank = sum(row.kept for row in here)
    kept = sums[rank - 1] if rank else 0.0
    figure, (axes,) = canvas(3.1)
    axes.bar(
        places, shares, width=0.8, color=[MAIN if r.kept else MUTED for r in here], lw=0
    )
    axes.plot(
        places, sums, "o-", color=WORST, ms=3, lw=1.6, label="together, up to here"
    )
    if energy is not None:
        label = f"wanted: {100 * energy:g} %"
        axes.axhline(100 * energy, color=INK, lw=1, ls="--", label=label)
    axes.set_xticks([places[i] for i in sparse(len(places), 12)])
    axes.set_xlabel("direction, by energy")
    axes.set_ylabel("share of energy (%)")
    axes.set_ylim(0, 104)
    axes.grid(axis="y")
    from matplotlib.patches import Patch

    handles, _ = axes.get_legend_handles_labels()
    handles = [Patch(color=MAIN, label=f"kept: {rank}"), *handles]
    if rank < len(here):
        handles.insert(1, Patch(color=MUTED, label="left out"))
    figure.legend(handles=handles, loc="outside upper left", ncols=2, handlelength=2)
    svg, png = files_of(figure)
    text = ", ".join(f"{share:.1f} %" for share in shares[:10])
    return Drawn(
        "spectrum",
        "Directions of the heads",
        "Share of the heads' energy in each direction at the last refresh. Clients "
        f"are compared in the first {rank}, which hold {kept:.0f} %.",
        f"Shares of the first directions at round {last}: {text}. The first {rank} of "
        f"{len(here)} are kept and hold {kept:.1f} %.",
        svg,
        png,
    )
