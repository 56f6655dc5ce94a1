"""Figures of prototype methods: who pulls how hard, drift, angles, a map."""

from collections.abc import Iterable, Sequence

from fedapp.report.axes import whole_rounds
from fedapp.report.drawing import (
    GROUPS,
    INK,
    MAIN,
    MUTED,
    TAIL,
    WORST,
    Drawn,
    canvas,
    files_of,
)
from fedapp.report.prototype_parts import Flat, PseudoRow, RoundRow
from fedapp.report.words import per_cent

Values = list[float]


def maturity(rows: Sequence[RoundRow]) -> Drawn:
    """Draw the gradients of the terms by embeddings, weighted, over rounds."""
    figure, (axes,) = canvas(3.3)
    rounds = [row.round for row in rows]
    entropy = _numbers(row.entropy_gradient for row in rows)
    pull = _numbers(row.alignment_gradient for row in rows)
    used = [p * (row.lam or 0.0) for p, row in zip(pull, rows, strict=True)]
    static = [p * (row.full_lam or 0.0) for p, row in zip(pull, rows, strict=True)]
    axes.plot(rounds, entropy, "-", color=MAIN, lw=1.8, label="cross-entropy")
    axes.plot(rounds, used, "--", color=WORST, lw=1.8, label="alignment, as weighted")
    if any(row.lam != row.full_lam for row in rows):
        axes.plot(
            rounds, static, ":", color=TAIL, lw=1.8, label="alignment, full weight"
        )
    axes.set_ylabel("norm of gradient by embeddings")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    whole_rounds(axes, rounds)
    figure.legend(loc="outside upper left", ncols=2, handlelength=2.2)
    svg, png = files_of(figure)
    above = [r for r, s, e in zip(rounds, static, entropy, strict=True) if s > e]
    finding = (
        f"At full weight the alignment pulls harder than cross-entropy in "
        f"{len(above)} of {len(rounds)} rounds"
        + (f", first in round {above[0]}." if above else ".")
    )
    return Drawn(
        "maturity",
        "Who pulls harder on the embeddings",
        "Gradient norms by the embedding of one sample, averaged over samples of the "
        "first batches of a round and over clients. " + finding,
        finding,
        svg,
        png,
    )


def drift_and_spread(rows: Sequence[RoundRow]) -> Drawn:
    """Draw how far prototypes move in a round, and how wide classes spread."""
    figure, (top, axes) = canvas(3.6, rows=(1, 1))
    rounds = [row.round for row in rows]
    top.plot(rounds, _hundreds(row.drift for row in rows), "-", color=MAIN, lw=1.8)
    top.set_ylabel("drift (%)")
    axes.plot(rounds, _numbers(row.spread for row in rows), "-", color=TAIL, lw=1.8)
    axes.set_ylabel("spread")
    for panel in (top, axes):
        panel.set_ylim(bottom=0)
        panel.grid(axis="y")
    whole_rounds(axes, rounds)
    svg, png = files_of(figure)
    last = rows[-1]
    return Drawn(
        "drift",
        "Drift of prototypes, spread of classes",
        "Above: how far global prototypes moved since the round before, relative to "
        "their length. Below: root mean squared distance of embeddings to the client's "
        "own class mean.",
        f"In round {last.round} prototypes moved by {per_cent(last.drift)} of their "
        f"length; spread {'-' if last.spread is None else f'{last.spread:.3g}'}.",
        svg,
        png,
    )


def angles_between(rows: Sequence[RoundRow]) -> Drawn:
    """Draw the mean and the smallest angle between global prototypes."""
    figure, (axes,) = canvas(2.8)
    rounds = [row.round for row in rows]
    mean = _numbers(row.angle_mean for row in rows)
    least = _numbers(row.angle_min for row in rows)
    axes.plot(rounds, mean, "-", color=MAIN, lw=1.8, label="mean of pairs")
    axes.plot(rounds, least, ":", color=WORST, lw=1.8, label="closest pair")
    axes.set_ylabel("angle (degrees)")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    whole_rounds(axes, rounds)
    figure.legend(loc="outside upper left", ncols=2, handlelength=2.2)
    svg, png = files_of(figure)
    return Drawn(
        "angles",
        "Angles between prototypes",
        "Angles between the global prototypes of all pairs of classes after each "
        "round. 90 degrees: unrelated.",
        f"In round {rounds[-1]} the mean angle is {mean[-1]:.1f} degrees, that of the "
        f"closest pair {least[-1]:.1f}.",
        svg,
        png,
    )


def prototype_map(
    found: Flat, sample: Flat | None = None, *, silhouette: float | None = None
) -> Drawn:
    """Draw prototypes in their main plane, with a sample of embeddings if there is.

    ``silhouette`` is the sample's, by class.
    """
    figure, (axes,) = canvas(4.0)
    if sample is not None:
        for label in sorted(set(sample.classes)):
            mine = [i for i, c in enumerate(sample.classes) if c == label]
            axes.scatter(
                sample.points[mine, 0],
                sample.points[mine, 1],
                s=7,
                lw=0,
                alpha=0.6,
                color=_colour(label),
            )
    for (x, y), label in zip(found.points, found.classes, strict=True):
        axes.scatter(x, y, s=130, color=_colour(label), edgecolor=INK, lw=0.8, zorder=3)
        axes.annotate(
            str(label),
            (x, y),
            ha="center",
            va="center",
            size=7,
            color="white",
            zorder=4,
        )
    axes.set_xlabel("first direction", color=MUTED)
    axes.set_ylabel("second direction", color=MUTED)
    axes.set_xticks([])
    axes.set_yticks([])
    svg, png = files_of(figure)
    dots = " Dots: test embeddings of some clients." if sample is not None else ""
    if silhouette is not None:
        dots += f" Their silhouette by class and cosine is {silhouette:.2f}."
    return Drawn(
        "prototypes",
        "Map of the prototypes",
        "Global prototypes after the last round, by class, in the plane of their two "
        f"main directions, which shows {per_cent(found.shown)} of their "
        f"variance.{dots}",
        f"{len(found.classes)} prototypes; the plane shows {per_cent(found.shown)} of "
        "their variance.",
        svg,
        png,
    )


def pseudo_labels(rows: Sequence[PseudoRow]) -> Drawn:
    """Draw how many pseudo-labels were accepted and how many of those were right."""
    figure, (axes,) = canvas(2.8)
    rounds = [row.round for row in rows]
    share = _hundreds(row.accepted_share for row in rows)
    right = _hundreds(row.accepted_accuracy for row in rows)
    axes.plot(rounds, share, "-", color=MAIN, lw=1.8, label="accepted")
    axes.plot(rounds, right, "--", color=TAIL, lw=1.8, label="right, of the accepted")
    axes.set_ylim(0, 101)
    axes.set_ylabel("pseudo-labels (%)")
    axes.grid(axis="y")
    whole_rounds(axes, rounds)
    figure.legend(loc="outside upper left", ncols=2, handlelength=2.2)
    svg, png = files_of(figure)
    last = rows[-1]
    return Drawn(
        "pseudo-labels",
        "Pseudo-labels",
        "Share of the unlabelled samples whose pseudo-label was accepted, and share of "
        "those that equal the hidden label.",
        f"In round {last.round} {per_cent(last.accepted_share)} were accepted, "
        f"{per_cent(last.accepted_accuracy)} of them right.",
        svg,
        png,
    )


def _colour(label: int) -> str:
    return GROUPS[label % len(GROUPS)]


def _numbers(values: Iterable[float | None]) -> Values:
    return [float("nan") if value is None else value for value in values]


def _hundreds(values: Iterable[float | None]) -> Values:
    return [100 * value for value in _numbers(values)]
