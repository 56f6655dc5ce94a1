"""Accuracy against one setting that varies over runs: samples, or number of groups."""

from collections.abc import Mapping, Sequence
from math import prod
from statistics import fmean

from fedapp.report.axes import per_cent_axis
from fedapp.report.compare_figures import DASHES, MARKS
from fedapp.report.comparison import differing
from fedapp.report.drawing import GROUPS, Drawn, canvas, files_of
from fedapp.report.folder import RunData
from fedapp.report.run_page import last_accuracy
from fedapp.report.words import per_cent

SWEPT = {
    "data.samples-per-client": "training samples of a client",
    "data.shift-groups": "number of latent groups",
}
BESIDE = {
    "data.samples-per-client": ("data.test-fraction", "local.epochs", "rounds.count"),
    "data.shift-groups": ("ifca.clusters",),
}
"""Settings that vary with the swept one and tell no lines apart."""

Lines = Mapping[str, Mapping[int, float]]


def sweep(runs: Sequence[RunData], name: str) -> Lines:
    """Return mean accuracy by value of setting ``name``, for each kind of run.

    Kinds are told apart by the other settings that differ; runs that differ in their
    seed only are averaged. Nothing if the setting is the same in all runs.
    """
    apart = differing(runs)
    if name not in apart or any(value is None for value in apart[name]):
        return {}
    others = [k for k in apart if k not in (name, "seed", *BESIDE[name])]
    found: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        mean = last_accuracy(run).mean
        if mean is None:
            continue
        kind = ", ".join(str(run.settings.get(k, "-")) for k in others) or "mean"
        line = found.setdefault(kind, {})
        line.setdefault(_number(run.settings[name]), []).append(mean)
    return {
        kind: {x: fmean(line[x]) for x in sorted(line)} for kind, line in found.items()
    }


def _number(value: object) -> int:
    return prod(int(count) for count in str(value).split("x"))


def sweep_figure(lines: Lines, name: str) -> Drawn:
    """Draw a line for each kind of run."""
    figure, (axes,) = canvas(3.2 + 0.17 * len(lines))
    ends = []
    for place, (kind, line) in enumerate(lines.items()):
        axes.plot(
            list(line),
            [100 * value for value in line.values()],
            color=GROUPS[place % len(GROUPS)],
            ls=DASHES[place % len(DASHES)],
            marker=MARKS[place % len(MARKS)],
            ms=4,
            lw=1.7,
            label=kind,
        )
        (first, low), (last, high) = next(iter(line.items())), list(line.items())[-1]
        ends.append(f"{kind} {per_cent(low)} at {first}, {per_cent(high)} at {last}")
    values = sorted({x for line in lines.values() for x in line})
    if values[0] > 0 and values[-1] > 10 * values[0]:
        axes.set_xscale("log")
    axes.set_xticks(values, [str(x) for x in values])
    axes.minorticks_off()
    axes.set_xlabel(SWEPT[name])
    every = [value for line in lines.values() for value in line.values()]
    per_cent_axis(axes, low=100 * min(every))
    figure.legend(loc="outside upper left", handlelength=2.6)
    svg, png = files_of(figure)
    title = f"Accuracy by {SWEPT[name]}"
    return Drawn(
        f"compare-{name.partition('.')[2]}",
        title,
        "Mean of clients at the last evaluation; runs of several seeds are averaged.",
        f"{title}: " + "; ".join(ends) + ".",
        svg,
        png,
    )
