"""What the words of ``fedapp run`` ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedapp.config import Scalar, Settings, SettingsError, defaults, parse_pairs


@dataclass(frozen=True)
class Plan:
    """What the words of the command line ask for, checked."""

    settings: Settings
    overrides: Mapping[str, Scalar]
    run_dir: Path


def make_plan(words: Sequence[str]) -> Plan:
    """Return what ``[METHOD] [key=value]...`` asks for.

    Raises
    ------
    SettingsError
        A setting is wrong, or the run folder exists.
    """
    from fedapp.methods import check_settings

    method = next((word for word in words if "=" not in word), None)
    pairs = list(words)
    if method is not None:
        pairs[pairs.index(method)] = f"method={method}"
    overrides = parse_pairs(pairs)
    flat = {**defaults(), **overrides}
    settings = check_settings(flat)
    if settings.data.path:
        overrides["data.path"] = str(_absolute(settings.data.path))
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{settings.method}-{settings.data.name}-s{settings.seed}-{stamp}"
    run_dir = _absolute(settings.output.dir) / (settings.output.name or name)
    if run_dir.exists():
        raise SettingsError(
            f"the run folder {run_dir} exists already and is left as it is: "
            "choose another output.name, or move it away"
        )
    overrides |= {"output.dir": str(run_dir.parent), "output.name": run_dir.name}
    return Plan(settings, overrides, run_dir)


def _absolute(path: str) -> Path:
    return Path(path).expanduser().absolute()
