"""What makes two runs the same: settings, seed, contents of the data, and code."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from experiments.sources import sources_behind
from fedapp.config import Flat
from fedapp.files import sha256
from fedapp.methods import table

SHIPPED = ("fedapp", "strategies", "client_apps")

ROOTS = ("fedapp.server_app", "fedapp.client_app", "fedapp.inline")

WITHOUT = (
    "fedapp.methods",
    "fedapp.report",
    "fedapp.cli",
    "fedapp.doctor",
    "fedapp.launch",
)
"""What starts runs or shows them, and the table of methods: a new row changes none."""


def code_of(method: str) -> str:
    """Return a hash of the source files that run ``method``.

    Files that only other methods need do not count: a new method leaves the results of
    all others standing. A method of another package adds what it needs of that package.
    """
    halves = {cls.__module__ for cls in table()[method].classes}
    theirs = {name.partition(".")[0] for name in halves}
    files = sources_behind(
        [*ROOTS, *sorted(halves)], packages={*SHIPPED, *theirs}, skip=WITHOUT
    )
    return hash_of(files.items())


def hash_of(files: Iterable[tuple[str, Path]]) -> str:
    """Return a hash of names and contents; where the files lie does not matter."""
    total = hashlib.sha256()
    for name, file in sorted(files):
        total.update(
            f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode()
        )
    return total.hexdigest()


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
