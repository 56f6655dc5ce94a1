"""What makes two runs the same: settings, seed, contents of the data, and code."""

import functools
import hashlib
import importlib.util
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from fedapp.config import Flat, project_file
from fedapp.files import sha256
from fedapp.methods import table

SHIPPED = ("fedapp", "strategies", "client_apps")


def code_of(method: str) -> str:
    """Return a hash of the source files that run ``method``, and of pyproject.toml.

    A method of another package adds that package.
    """
    classes = table()[method].classes
    theirs = {cls.__module__.partition(".")[0] for cls in classes}
    return _hash_of_packages(tuple(sorted({*SHIPPED, *theirs})))


@functools.cache
def _hash_of_packages(names: tuple[str, ...]) -> str:
    return hash_of(
        [
            ("pyproject.toml", project_file()),
            *(pair for name in names for pair in _files(name)),
        ]
    )


def hash_of(files: Iterable[tuple[str, Path]]) -> str:
    """Return a hash of names and contents; where the files lie does not matter."""
    total = hashlib.sha256()
    for name, file in sorted(files):
        total.update(
            f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode()
        )
    return total.hexdigest()


def _files(package: str) -> Iterator[tuple[str, Path]]:
    """Return the source files of a package or a module, with their names in it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin:
        raise ValueError(f"the package {package} cannot be found: install it again")
    origin = Path(spec.origin)
    if not spec.submodule_search_locations:
        yield origin.name, origin
        return
    folder = origin.parent
    for file in folder.rglob("*"):
        name = file.relative_to(folder.parent)
        hidden = any(part.startswith(".") for part in name.parts)
        if file.is_file() and not hidden and "__pycache__" not in name.parts:
            yield name.as_posix(), file


def identity_of(settings: Flat, *, seed: int, data_key: str, code: str) -> str:
    """Return a name for everything that the result of a run depends on.

    The data set counts by its contents (``data_key``), not by where it lies.
    """
    facts = {
        "settings": {name: settings[name] for name in settings if name != "data.path"},
        "seed": seed,
        "data": data_key,
        "code": code,
    }
    return sha256(json.dumps(facts, sort_keys=True))
