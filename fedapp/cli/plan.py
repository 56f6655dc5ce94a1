"""What the words of ``fedapp run`` ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedapp.config import Scalar, Settings, SettingsError, defaults, parse_pairs
from fedapp.configurations import configuration as settings_of


@dataclass(frozen=True)
class Plan:
    """What the words of the command line ask for, checked."""

    settings: Settings
    overrides: Mapping[str, Scalar]
    run_dir: Path


def make_plan(words: Sequence[str], configuration: str | None = None) -> Plan:
    """Return what ``[METHOD] [key=value]...`` asks for.

    Settings of the named ``configuration`` hold where the words say nothing else.

    Raises
    ------
    SettingsError
        A setting is wrong, or the run folder exists.
    """
    # Not at the top: both import torch.
    from fedapp.methods import check_for_simulation

    settings, overrides = read_words(words, configuration)
    check_for_simulation(settings)
    from fedapp.run_folder import taken

    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{settings.method}-{settings.data.name}-s{settings.seed}-{stamp}"
    run_dir = _absolute(settings.output.dir) / (settings.output.name or name)
    if run_dir.exists():
        raise SettingsError(taken(run_dir))
    path = str(overrides.get("data.path", ""))
    if path and not Path(path).exists():
        raise SettingsError(f"data.path = {path!r} does not exist")
    overrides |= {"output.dir": str(run_dir.parent), "output.name": run_dir.name}
    return Plan(settings, overrides, run_dir)


def make_resumption(run: str, words: Sequence[str]) -> Plan:
    """Return the plan of going on with a run; ``words`` may change some settings.

    Raises
    ------
    SettingsError
        The folder holds no run that can go on, or a setting that matters differs.
    """
    from fedapp.run_folder import check_free, check_resumable, check_same, read_config

    run_dir = _absolute(run)
    try:
        check_resumable(run_dir)
        check_free(run_dir)
        before = read_config(run_dir)
        overrides = {**before, **parse_pairs(words)}
        overrides |= {"output.dir": str(run_dir.parent), "output.name": run_dir.name}
        overrides["output.resume"] = True
        check_same(before, overrides)
    except (ValueError, RuntimeError) as problem:
        raise SettingsError(str(problem)) from None
    from fedapp.methods import check_settings

    return Plan(check_settings({**defaults(), **overrides}), overrides, run_dir)


def read_words(
    words: Sequence[str], configuration: str | None = None
) -> tuple[Settings, dict[str, Scalar]]:
    """Return checked settings and what of them was given, paths to data absolute.

    What the named ``configuration`` gives counts as given.

    Raises
    ------
    SettingsError
        One line for each word that is wrong.
    """
    from fedapp.methods import check_settings, method_named

    method = next((word for word in words if "=" not in word), None)
    pairs = list(words)
    if method is not None:
        pairs[pairs.index(method)] = f"method={method}"
    try:
        overrides = parse_pairs(pairs)
    except SettingsError as problem:
        problems = [str(problem)]
        # The method may be misspelt as well: say all at once.
        named = [p.partition("=")[2] for p in pairs if p.startswith("method=")]
        try:
            method_named(named[0] if named else str(defaults()["method"]))
        except SettingsError as other:
            problems.insert(0, str(other))
        raise SettingsError("\n".join(problems)) from None
    if configuration is not None:
        overrides = {**settings_of(configuration), **overrides}
    settings = check_settings({**defaults(), **overrides})
    if settings.data.path:
        overrides["data.path"] = str(_absolute(settings.data.path))
    return settings, overrides


def _absolute(path: str) -> Path:
    return Path(path).expanduser().absolute()
