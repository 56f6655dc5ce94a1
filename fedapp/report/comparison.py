"""What differs between runs: settings, and accuracies client by client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from fedapp.config import Scalar
from fedapp.data.manifest import Manifest
from fedapp.report.folder import PLACES, RunData


@dataclass(frozen=True)
class Paired:
    """Accuracy of a run minus that of the first, by client that both scored.

    Clients that are unseen in either run are left out.
    """

    differences: Mapping[int, float]

    @property
    def mean(self) -> float:
        """The mean difference."""
        return fmean(self.differences.values())

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many clients do better, alike and worse."""
        values = self.differences.values()
        better, worse = sum(v > 0 for v in values), sum(v < 0 for v in values)
        return better, len(values) - better - worse, worse

    @property
    def ends(self) -> tuple[int, int]:
        """The clients that lose and gain most; the first of equals."""
        order = sorted(self.differences, key=lambda c: (self.differences[c], c))
        most = max(self.differences.values())
        return order[0], next(c for c in order if self.differences[c] == most)


def labels(paths: Sequence[Path]) -> list[str]:
    """Return a short name for each path: as many last parts as tell them apart."""
    for count in range(1, max((len(path.parts) for path in paths), default=1) + 1):
        names = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise ValueError("a run is given twice: give each run folder once")


def differing(runs: Sequence[RunData]) -> dict[str, list[Scalar | None]]:
    """Return the settings that are not the same in all runs, None where not known."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    values = {
        name: [run.settings.get(name) for run in runs]
        for name in names
        if name not in PLACES
    }
    return {name: row for name, row in values.items() if len(set(row)) > 1}


def pair(first: RunData, other: RunData) -> Paired | str:
    """Return the differences client by client, or why there can be none."""
    for run in (first, other):
        if not run.results:
            return f"{run.path.name} has no results by client"
    if first.manifest is None or other.manifest is None:
        bare = first if first.manifest is None else other
        return f"{bare.path.name} has no manifest.json: who holds what is not known"
    reason = _apart(first.manifest, other.manifest)
    if reason:
        return reason
    seen = min(first.unseen_from, other.unseen_from)
    before = {c.client: c.accuracy for c in first.results if c.client < seen}
    after = {c.client: c.accuracy for c in other.results}
    common = {k: after[k] - before[k] for k in before if k in after}
    return Paired(common) if common else "no client was scored in both runs"


def _apart(first: Manifest, other: Manifest) -> str:
    if first.key != other.key:
        return (
            f"the data sets differ: {first.name} ({first.key}), {other.name} "
            f"({other.key})"
        )
    shifts = [(m.settings["shift"], m.settings["shift-groups"]) for m in (first, other)]
    dealt = [(m.clients, m.label_maps) for m in (first, other)]
    if shifts[0] == shifts[1] and dealt[0] == dealt[1]:
        return ""
    changed = [
        f"data.{name} = {first.settings.get(name)} and {other.settings.get(name)}"
        for name in {**first.settings, **other.settings}
        if first.settings.get(name) != other.settings.get(name)
    ]
    if first.seed != other.seed:
        changed.insert(0, f"seed = {first.seed} and {other.seed}")
    return "clients hold other samples: " + (", ".join(changed) or "another partition")
