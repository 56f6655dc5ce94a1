"""Which commit of which run a study is of, or why there can be none."""

from dataclasses import dataclass
from pathlib import Path

from fedapp.checkpoint import Checkpoints
from fedapp.config import Settings, SettingsError, defaults
from fedapp.data.images import load_images
from fedapp.data.manifest import Manifest
from fedapp.methods import check_settings
from fedapp.run_folder import read_config
from fedapp.workplace import cache_folder

HDC_FL = "hdc-fl"


class StudyError(ValueError):
    """A run that cannot be studied; the message says why and what to do."""


@dataclass(frozen=True)
class Place:
    """A committed round of a run folder, and where its data are decoded.

    A process needs nothing else to look at the run.
    """

    path: Path
    round: int
    cache: Path


def find(path: Path, *, round: int | None, data_path: str) -> Place:
    """Return the place of a study: the newest commit of a run, or that of ``round``.

    The data are looked up, from ``data_path`` if that is given, and must be those of
    the run.

    Raises
    ------
    StudyError
        If this is no finished or interrupted HDC-FL simulation whose data are here.
    """
    path = path.expanduser().absolute()
    settings = settings_of(path)
    manifest = manifest_of(path)
    if settings.memory.store == "context":
        raise StudyError(
            f"{path}: with memory.store = 'context' the clients' heads ended with the "
            "run; run it again with a folder store"
        )
    cache = cache_folder()
    _check_data(settings, manifest, data_path=data_path, cache=cache)
    return Place(path, _committed(path, round), cache)


def settings_of(path: Path) -> Settings:
    """Return the settings of an HDC-FL run."""
    if not (path / "config.toml").is_file():
        raise StudyError(f"{path} is not a run folder: it has no config.toml")
    try:
        # Another release may have other settings: what it lacks has its default.
        flat = {**defaults(), **read_config(path)}
    except ValueError as error:
        raise StudyError(f"{path / 'config.toml'} cannot be read: {error}") from None
    if flat["method"] != HDC_FL:
        raise StudyError(
            f"{path} is a run of {flat['method']}; this looks at the cache of an "
            f"{HDC_FL} run, other methods keep none"
        )
    try:
        return check_settings(flat)
    except SettingsError as error:
        raise StudyError(f"{path / 'config.toml'}: {error}") from None


def manifest_of(path: Path) -> Manifest:
    """Return who has which samples."""
    file = path / "manifest.json"
    try:
        return Manifest.from_json(file.read_text("utf-8"))
    except FileNotFoundError:
        why = "it did not get as far as dividing its data"
        if (path / "devices.json").is_file():
            why = "it ran on devices, whose test samples are not here"
        raise StudyError(f"{path} has no manifest.json: {why}") from None
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise StudyError(f"{file} cannot be read: {error}") from None


def _check_data(
    settings: Settings, manifest: Manifest, *, data_path: str, cache: Path
) -> None:
    """Decode the data if they are not decoded yet, and see that they are the run's."""
    data = settings.data
    hint = "say where they are now by --data-path"
    try:
        images = load_images(
            data.name,
            path=data_path or data.path,
            image_column=data.image_column,
            label_column=data.label_column,
            client_column=data.client_column,
            cache=cache,
        )
    except (ValueError, OSError) as error:
        raise StudyError(f"the data of the run are gone: {error}; {hint}") from None
    if images.key != manifest.key:
        raise StudyError(
            f"the data have changed since the run: they were {manifest.key} and are "
            f"{images.key}; {hint}"
        )


def _committed(path: Path, round: int | None) -> int:
    rounds = Checkpoints(path / "checkpoint").rounds()
    if not rounds:
        raise StudyError(
            f"no round of the run in {path} is committed (checkpoint/ is empty): let "
            "it finish one (fedapp run --resume)"
        )
    if round is not None and round not in rounds:
        raise StudyError(
            f"round {round} is not there: {path} has the commits of rounds "
            f"{', '.join(map(str, rounds))} (the last two are kept)"
        )
    return rounds[-1] if round is None else round
