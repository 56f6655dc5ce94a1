"""Reading the files of a run folder: broken main files are errors, others missing."""

import csv
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from fedapp.config import Scalar, defaults
from fedapp.data.manifest import Manifest
from fedapp.report.parts import Part, Summary

Row = TypeVar("Row", bound=Part)


class RunFolderError(ValueError):
    """A path that is no run folder, or one whose main files cannot be read."""


def check(path: Path) -> None:
    """Raise RunFolderError unless ``path`` is a run folder."""
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise RunFolderError(f"{path} is no run folder: it {what}; give a run's folder")
    if not any((path / name).is_file() for name in ("config.toml", "summary.json")):
        inside = [p.parent.name for p in sorted(path.glob("*/config.toml"))]
        hint = f"; did you mean one inside it, as {inside[0]!r}?" if inside else ""
        raise RunFolderError(
            f"{path} is no run folder: it has neither config.toml nor "
            f"summary.json{hint}"
        )


def read_config(file: Path, missing: list[str]) -> dict[str, Any]:
    """Return config.toml; ``missing`` gains a sentence if there is none."""
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        missing.append("config.toml is missing: the settings are not known.")
        return {}
    except (OSError, ValueError) as error:
        raise _broken(file, error) from None


def check_types(file: Path, settings: Mapping[str, Scalar]) -> None:
    """Raise RunFolderError if a setting we know has a value of another type."""
    for name, default in defaults().items():
        value = settings.get(name, default)
        wide = isinstance(default, float) and type(value) is int
        if type(value) is not type(default) and not wide:
            kind = type(default).__name__
            raise _broken(file, ValueError(f"{name} = {value!r} is no {kind}"))


def read_summary(path: Path, missing: list[str]) -> Summary:
    """Return summary.json, or what is known without."""
    file = path / "summary.json"
    try:
        return Summary.model_validate(json.loads(file.read_text("utf-8")))
    except FileNotFoundError:
        missing.append(
            "summary.json is missing: the run is still going on, or was killed."
        )
    except (OSError, ValueError) as error:
        raise _broken(file, error) from None
    # progress.json knows how far a run came that had no time to say more.
    try:
        progress = json.loads((path / "progress.json").read_text("utf-8"))
        return Summary.model_validate({"error": progress.get("error")})
    except (OSError, ValueError, AttributeError):
        return Summary()


def _broken(file: Path, error: Exception) -> RunFolderError:
    return RunFolderError(
        f"{file} cannot be read: {_first(error)}; restore it, or report another run"
    )


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        return f"{where}: {problem['msg']}"
    return str(error)


def read_manifest(file: Path, missing: list[str]) -> Manifest | None:
    """Return manifest.json, or None."""
    try:
        return Manifest.from_json(file.read_text("utf-8"))
    except FileNotFoundError:
        missing.append(
            "manifest.json is missing: who holds which samples is not known (devices "
            "keep that to themselves)."
        )
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        missing.append(f"manifest.json cannot be read and is left out: {error}.")
    return None


def read_rows(
    path: Path, name: str, kind: type[Row], missing: list[str], absent: str
) -> tuple[Row, ...]:
    """Return the rows of a CSV file; ``absent`` says why there may be none, if so."""
    try:
        with (path / name).open(encoding="utf-8", newline="") as stream:
            found = list(csv.DictReader(stream))
        # A run that dies while it writes leaves half a row at the end.
        if found and None in found[-1].values():
            found.pop()
            missing.append(f"{name} ends within a row; that row is left out.")
        cells = [{k: v if v != "" else None for k, v in row.items()} for row in found]
        return tuple(TypeAdapter(list[kind]).validate_python(cells))  # type: ignore[valid-type]
    except FileNotFoundError:
        if absent:
            missing.append(f"{name} is missing: {absent}.")
    except (OSError, ValueError, csv.Error) as error:
        missing.append(f"{name} cannot be read and is left out: {_first(error)}.")
    return ()
