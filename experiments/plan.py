"""From a table to its runs: every cell with every seed, on this machine's data."""

from pathlib import Path

from experiments.identity import code_of
from experiments.settings import DATA
from experiments.store import Run
from experiments.table import Table, TableError
from fedapp.config import Flat
from fedapp.data.images import load_images

COLUMNS = ("data.image-column", "data.label-column", "data.client-column")


def plan(table: Table, *, data: Path | None, out: Path, cache: Path) -> list[Run]:
    """Return the runs of a table, cell by cell.

    Every data set is read once, and decoded into ``cache`` if it is not there yet.

    Raises
    ------
    TableError
        One line for each data set that is not there.
    """
    keys: dict[tuple[str, ...], str] = {}
    codes: dict[str, str] = {}
    problems: list[str] = []
    runs = []
    for cell in table.cells:
        path = place_of(str(cell.settings["data.path"]), data)
        if path is None:
            problems.append(
                f"data.path = {cell.settings['data.path']!r}: say where the data sets "
                "are, by --data FOLDER or the environment variable FEDAPP_DATA"
            )
            continue
        wanted = (path, *(str(cell.settings[n]) for n in ("data.name", *COLUMNS)))
        if wanted not in keys:
            try:
                keys[wanted] = key_of(cell.settings, path, cache)
            except ValueError as error:
                problems.append(str(error))
                continue
        method = str(cell.settings["method"])
        if method not in codes:
            codes[method] = code_of(method)
        runs += [
            Run(cell, seed, path, keys[wanted], codes[method], out)
            for seed in table.seeds
        ]
    if problems:
        lines = dict.fromkeys(problems)
        raise TableError("\n".join(f"{table.path.name}: {line}" for line in lines))
    return runs


def place_of(path: str, data: Path | None) -> str | None:
    """Return ``data.path`` on this machine; None if that takes an unknown ``$DATA``."""
    if not path.startswith(DATA):
        return path
    if data is None:
        return None
    return str(data / path.removeprefix(DATA).lstrip("/"))


def key_of(settings: Flat, path: str, cache: Path) -> str:
    """Return the name of a data set's contents."""
    return load_images(
        str(settings["data.name"]),
        path=path,
        image_column=str(settings["data.image-column"]),
        label_column=str(settings["data.label-column"]),
        client_column=str(settings["data.client-column"]),
        cache=cache,
    ).key
