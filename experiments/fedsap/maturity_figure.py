"""Draw what the alignment does early: its pull, and accuracy, by weight and schedule.

python experiments/fedsap/maturity_figure.py [FOLDER OF ALL RUNS]

Reads the run folders of the tables ``sweep`` and ``early``: run those here before.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from matplotlib import rc_context

from fedapp.report.drawing import GROUPS, MUTED, STYLE, canvas, files_of
from fedapp.report.folder import RunData, load
from fedapp.workplace import cache_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).resolve().parent
WEIGHTS = (1, 10, 30, 100)
SCHEDULES = {"warm-up": "-", "static": ":"}
ROUNDS = 8
SHOWN, TICKS = (0.04, 20), (0.1, 0.3, 1, 3, 10)
"""What the upper panel shows: a run that diverges leaves it."""


def main() -> None:
    """Write the figure beside the tables."""
    runs = Path(sys.argv[1]) if len(sys.argv) > 1 else cache_folder() / "experiments"
    with rc_context(STYLE):
        figure, (top, axes) = canvas(5.6, rows=(1, 1))
        for place, weight in enumerate(WEIGHTS):
            for schedule, dashes in SCHEDULES.items():
                look = (dashes, GROUPS[place], f"M = {weight}, {schedule}")
                row = f"mean over coordinates, M = {weight}"
                draw(top, pull(next(of(runs, "sweep", row, schedule))), look)
                row = f"FedSAP, M = {weight}, {schedule}"
                draw(axes, accuracy(list(of(runs, "early", row, ""))), look)
        top.axhline(1, color=MUTED, lw=0.8)
        top.set_yscale("log")
        top.set_ylim(*SHOWN)
        top.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
        top.minorticks_off()
        top.set_ylabel("alignment / cross-entropy")
        axes.set_ylabel("mean accuracy (%)")
        axes.set_xlabel("round")
        for panel in (top, axes):
            panel.grid(axis="y")
        figure.align_ylabels([top, axes])
        handles, names = top.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper left", ncols=2)
        (HERE / "maturity.png").write_bytes(files_of(figure)[1])


def of(runs: Path, table: str, row: str, column: str) -> Iterator[RunData]:
    """Yield the runs of a cell, one for each seed."""
    with (HERE / f"{table}_runs.csv").open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            if (line["row"], line.get("column", "")) == (row, column):
                (folder,) = runs.glob(f"*-{line['identity'][:20]}")
                yield load(folder)


def pull(run: RunData) -> dict[int, float]:
    """Return the alignment's weighted gradient over that of cross-entropy, by round.

    Both are by the embedding of one sample.
    """
    return {
        row.round: row.lam * row.alignment_gradient / row.entropy_gradient
        for row in run.prototypes[:ROUNDS]
        if row.lam and row.alignment_gradient and row.entropy_gradient
    }


def accuracy(runs: list[RunData]) -> dict[int, float]:
    """Return mean accuracy of clients, then of runs, per cent, by round."""
    found: dict[int, list[float]] = {}
    for run in runs:
        for row in run.scores:
            if row.model == "own":
                found.setdefault(row.round, []).append(100 * row.accuracy)
    return {number: fmean(found[number]) for number in sorted(found)}


def draw(axes: "Axes", line: dict[int, float], look: tuple[str, str, str]) -> None:
    """Draw one line."""
    dashes, colour, label = look
    axes.plot(
        list(line), list(line.values()), dashes, color=colour, label=label, lw=1.7
    )


if __name__ == "__main__":
    main()
