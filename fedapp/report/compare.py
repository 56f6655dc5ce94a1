"""Several runs side by side, as values: what the terminal and the page show."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedapp.report.comparison import Paired, differing, labels, pair
from fedapp.report.folder import RunData, load
from fedapp.report.reading import RunFolderError
from fedapp.report.run_page import last_accuracy
from fedapp.report.run_sections import text_of
from fedapp.report.words import duration, per_cent, points_of, size

RESULTS = (
    "run",
    "mean",
    "worst",
    "bottom 20 %",
    "gap",
    "method",
    "status",
    "round",
    "training traffic",
    "time",
)
PAIRS = ("run", "mean", "better", "alike", "worse", "most lost", "most gained")


@dataclass(frozen=True)
class Comparison:
    """Runs with their labels; ``pairs`` compares each but the first with the first."""

    runs: tuple[RunData, ...]
    labels: tuple[str, ...]
    pairs: tuple[Paired | str, ...]

    @property
    def comparable(self) -> bool:
        """Whether at least two runs have an accuracy."""
        return sum(last_accuracy(run).mean is not None for run in self.runs) >= 2

    def results(self) -> list[list[str]]:
        """Return a row for each run, under the headings ``RESULTS``."""
        return [
            _result(label, run)
            for label, run in zip(self.labels, self.runs, strict=True)
        ]

    def settings(self) -> list[list[str]]:
        """Return a row for each setting that differs: its name, its values."""
        return [
            [name, *("-" if v is None else text_of(v) for v in values)]
            for name, values in differing(self.runs).items()
        ]

    def paired(self) -> list[list[str]]:
        """Return a row for each run that can be paired, under ``PAIRS``."""
        return [
            [label, *_numbers(found, self.names)]
            for label, found in self._others()
            if isinstance(found, Paired)
        ]

    def unpaired(self) -> list[str]:
        """Return why runs cannot be paired, in sentences."""
        return [
            f"{label} and {self.labels[0]} cannot be compared client by client: {why}."
            for label, why in self._others()
            if isinstance(why, str)
        ]

    @property
    def names(self) -> dict[int, str]:
        """The names of clients, as the first run has them."""
        return {c.client: c.name for c in self.runs[0].results}

    def _others(self) -> list[tuple[str, Paired | str]]:
        return list(zip(self.labels[1:], self.pairs, strict=True))


def compare(paths: Sequence[Path]) -> Comparison:
    """Return the runs in ``paths`` side by side.

    Raises
    ------
    RunFolderError
        If there are fewer than two, one is given twice, or one is no run folder.
    """
    if len(paths) < 2:
        raise RunFolderError("give at least two run folders to compare")
    runs = [load(path) for path in paths]
    try:
        names = labels([run.path.resolve() for run in runs])
    except ValueError as error:
        raise RunFolderError(str(error)) from None
    pairs = [pair(runs[0], other) for other in runs[1:]]
    return Comparison(tuple(runs), tuple(names), tuple(pairs))


def _result(label: str, run: RunData) -> list[str]:
    accuracy, traffic = last_accuracy(run), run.summary.traffic
    return [
        label,
        per_cent(accuracy.mean),
        per_cent(accuracy.worst),
        per_cent(accuracy.bottom20),
        per_cent(accuracy.gap),
        run.summary.method or text_of(run.settings.get("method", "-")),
        run.summary.status,
        str(run.evaluated or "-"),
        size(traffic.down_bytes + traffic.up_bytes),
        duration(run.summary.seconds.total),
    ]


def _numbers(found: Paired, names: dict[int, str]) -> list[str]:
    lost, gained = found.ends
    return [
        points_of(found.mean),
        *map(str, found.counts),
        f"client {names[lost]}: {points_of(found.differences[lost])}",
        f"client {names[gained]}: {points_of(found.differences[gained])}",
    ]
