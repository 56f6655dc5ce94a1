"""Figures of a run as a whole: accuracy over rounds, traffic and time."""

from collections.abc import Sequence

from fedapp.report.axes import per_cent_axis, whole_rounds
from fedapp.report.curves import Point
from fedapp.report.drawing import INK, MAIN, MUTED, TAIL, WORST, Drawn, canvas, files_of
from fedapp.report.parts import Seconds, Traffic
from fedapp.report.words import duration, per_cent, size


def accuracy_over_rounds(points: Sequence[Point]) -> Drawn:
    """Draw the mean over clients, the quartiles, the bottom 20 % and the worst."""
    figure, (axes,) = canvas(3.3)
    rounds = [point.round for point in points]
    low, high = ([100 * p.low for p in points], [100 * p.high for p in points])
    mark = "o" if len(points) <= 40 else ""
    axes.fill_between(
        rounds, low, high, color=MAIN, alpha=0.2, lw=0, label="middle half of clients"
    )
    lines = (("mean", "mean", MAIN, "-"), ("bottom20", "bottom 20 %", TAIL, "--"))
    for key, label, colour, dash in (*lines, ("worst", "worst client", WORST, ":")):
        values = [_hundred(getattr(p.accuracy, key)) for p in points]
        axes.plot(
            rounds, values, dash, color=colour, marker=mark, ms=3, lw=1.8, label=label
        )
    per_cent_axis(axes, low=min(_hundred(p.accuracy.worst) for p in points))
    whole_rounds(axes, rounds)
    figure.legend(loc="outside upper left", ncols=2, handlelength=2.2)
    svg, png = files_of(figure)
    first, last = points[0], points[-1]
    return Drawn(
        "accuracy",
        "Accuracy over rounds",
        "Test accuracy at each evaluation. The band holds the middle half of the "
        "clients; unseen clients are left out.",
        f"Mean accuracy {per_cent(first.accuracy.mean)} at round {first.round}, "
        f"{per_cent(last.accuracy.mean)} at round {last.round}; worst client "
        f"{per_cent(first.accuracy.worst)}, then {per_cent(last.accuracy.worst)}.",
        svg,
        png,
    )


def costs(traffic: Traffic, seconds: Seconds) -> Drawn:
    """Draw traffic and time as bars with their numbers."""
    sent = {
        "training, to clients": traffic.down_bytes,
        "training, from clients": traffic.up_bytes,
        "evaluation, to clients": traffic.evaluate_down_bytes,
        "evaluation, from clients": traffic.evaluate_up_bytes,
    }
    spent = {
        "start": seconds.startup,
        "training rounds": seconds.train,
        "evaluations": seconds.evaluate,
        "server, rest": seconds.server,
    }
    figure, panels = canvas(3.4, rows=(1, 1), share=False)
    for axes, title, values, text in (
        (panels[0], "traffic", sent, size),
        (panels[1], "time", spent, duration),
    ):
        bars = axes.barh(list(values), list(values.values()), color=MAIN, height=0.65)
        axes.bar_label(bars, [text(v) for v in values.values()], padding=4, color=INK)
        axes.set_xlim(0, 1.35 * max(*values.values(), 1e-9))
        axes.invert_yaxis()
        axes.set_xticks([])
        axes.spines[["bottom", "left"]].set_visible(False)
        axes.tick_params(length=0)
        axes.set_title(title, loc="left", color=MUTED)
    svg, png = files_of(figure)
    return Drawn(
        "costs",
        "Traffic and time",
        "Bytes of tensors and numbers in messages, of all clients together; seconds "
        "of the whole run on the clock.",
        "; ".join(f"{name}: {size(v)}" for name, v in sent.items())
        + "; "
        + "; ".join(f"{name}: {duration(v)}" for name, v in spent.items())
        + ".",
        svg,
        png,
    )


def _hundred(share: float | None) -> float:
    return float("nan") if share is None else 100 * share
