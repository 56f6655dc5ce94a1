"""What stands below a table: how its numbers came about, without paths or dates."""

from collections.abc import Iterable, Mapping, Sequence

import tomli_w

from experiments.results import TableResult
from experiments.table import Cell
from fedapp.config import Scalar


def footer(result: TableResult) -> list[str]:
    """Return the lines below the table."""
    found = [r for _, r in result.finished]
    minutes = sum(r.seconds for r in found) / 60
    versions = [
        ", ".join(f"{k} {v}" for k, v in r.about["versions"].items() if k != "commit")
        for r in found
    ]
    facts = {
        "Measure": [result.table.measure],
        "Seeds": [", ".join(str(seed) for seed in result.table.seeds)],
        "Commit": [r.about["versions"].get("commit") or "unknown" for r in found],
        "Code": [r.about["code"][:20] for r in found],
        "Data": [r.about["data"] for r in found],
        "Versions": versions,
        "Hardware": [r.about["hardware"] for r in found],
        "Time": [f"{minutes:.1f} minutes, the runs added up"] if found else [],
    }
    lines = [
        f"- {name}: {'; '.join(dict.fromkeys(values)) or 'no run yet'}"
        for name, values in facts.items()
    ]
    return [*lines, "", *_settings(result)]


def _settings(result: TableResult) -> list[str]:
    own = [found.cell for found in result.cells if not found.cell.same_as]
    cells = [(cell.name, cell.settings) for cell in own]
    shared = common([settings for _, settings in cells])
    lines = ["Settings of all cells:", "", *_toml(shared)]
    for name, settings in cells:
        if theirs := {k: v for k, v in settings.items() if k not in shared}:
            lines += ["", f"Settings of {name}:", "", *_toml(theirs)]
    return [*lines, *_sharing([found.cell for found in result.cells])]


def _sharing(cells: Sequence[Cell]) -> list[str]:
    """Return whose runs are shown where, and which variant of them is."""
    lines = []
    for cell in cells:
        words = [f"the runs of {cell.same_as}"] if cell.same_as else []
        words += [f"variant `{cell.variant}`"] if cell.variant else []
        if words:
            lines.append(f"- {cell.name}: {', '.join(words)}")
    return ["", "No training of their own:", "", *lines] if lines else []


def common(settings: list[Mapping[str, Scalar]]) -> dict[str, Scalar]:
    """Return the settings that have one value everywhere."""
    first, *others = settings
    return {
        name: value
        for name, value in first.items()
        if all(name in other and other[name] == value for other in others)
    }


def _toml(settings: Mapping[str, Scalar]) -> Iterable[str]:
    return ["```toml", *tomli_w.dumps(dict(settings)).splitlines(), "```"]
