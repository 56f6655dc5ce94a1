"""The settings of one cell: put together, checked, and told apart."""

from collections.abc import Mapping

from fedapp.config import (
    SECTIONS,
    Scalar,
    SettingsError,
    defaults,
    suggestion,
    unknown_setting,
)
from fedapp.methods import check_settings, table

DATA = "$DATA"
"""Stands at the start of ``data.path`` for the folder of data sets of this machine."""

Some = Mapping[str, Scalar]


def resolve(shared: Some, own: Some) -> dict[str, Scalar]:
    """Return all settings that the method reads, but for the seed and the output.

    Tables of other methods are left out, and whole numbers become fractions where the
    default is one: cells with equal settings do the same.
    """
    known, given = defaults(), {**defaults(), **shared, **own}
    tables = {"", *SECTIONS, table_of(str(given["method"]))} - {"output"}
    return {
        name: float(value)
        if type(value) is int and isinstance(known[name], float)
        else value
        for name, value in given.items()
        if name.rpartition(".")[0] in tables and name != "seed"
    }


def table_of(method: str) -> str:
    """Return the name of a method's own table of settings."""
    return table()[method].section or method


def problems_of(shared: Some, own: Some) -> list[str]:
    """Return one line for each thing that is wrong with the settings of a cell."""
    given = {**shared, **own}
    found = [unknown_setting(name) for name in given if name not in defaults()]
    found += [line for name in given for line in _not_here(name)]
    path = given.get("data.path", "")
    if path and str(path).partition("/")[0] != DATA:
        found.append(
            f"data.path = {path!r}: begin it with {DATA}/, the folder given by --data"
        )
    method = str(given.get("method", defaults()["method"]))
    known = {name: given[name] for name in given if name in defaults()}
    if method not in table():
        hint = suggestion(method, table()) or "; see: fedapp methods"
        found.append(f"method = {method!r}: there is no such method{hint}")
        known["method"] = defaults()["method"]
    else:
        found += _without_effect(own, method)
    try:
        check_settings({**defaults(), **known})
    except SettingsError as error:
        found += str(error).splitlines()
    return found


def _not_here(name: str) -> list[str]:
    if name == "seed":
        return ["seed: give it in the list `seeds` of the table"]
    if name.startswith("output."):
        return [f"{name}: the runner names the run folders; see --out"]
    return []


def _without_effect(own: Some, method: str) -> list[str]:
    mine = {"", *SECTIONS, table_of(method)}
    return [
        f"{name}: method {method!r} does not read it"
        for name in own
        if name in defaults() and name.rpartition(".")[0] not in mine
    ]
