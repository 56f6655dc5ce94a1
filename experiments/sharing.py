"""Cells that show the runs of another cell, or a variant of their own."""

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.measures import MEASURES
from fedapp.config import Scalar, defaults, suggestion
from fedapp.study.place import HDC_FL
from fedapp.study.variant import RAW_HEADS, variant_named

Entry = Mapping[str, Any]


def name_of(row: object, column: object) -> str:
    """Return where a cell stands, in words."""
    return " / ".join(str(part) for part in (row, column) if part)


def shown_runs(entry: Entry, entries: Sequence[Entry]) -> tuple[object, list[str]]:
    """Return the settings of the runs that a cell shows, and what is wrong with them.

    They are its own, or those of the cell that ``same-as`` names.
    """
    wanted = entry.get("same-as")
    if not wanted:
        return entry.get("set"), []
    problems = []
    if entry.get("set"):
        problems.append(
            "set: a cell with same-as shows the runs of another; leave set out"
        )
    names = {name_of(e.get("row"), e.get("column")): e for e in entries}
    other = names.get(str(wanted))
    if other is None or other.get("same-as"):
        own = [name for name, e in names.items() if not e.get("same-as")]
        hint = suggestion(str(wanted), own) or f"; there are {', '.join(own) or 'none'}"
        problems.append(
            f"same-as = {wanted!r}: there is no cell of that name with runs of its "
            f"own{hint}"
        )
        return None, problems
    return other.get("set"), problems


def wrong_reading(entry: Entry, given: Mapping[str, Scalar], measure: str) -> list[str]:
    """Return what is wrong with the numbers a cell would show, given its settings."""
    variant = entry.get("variant") or ""
    if measure not in MEASURES or not isinstance(variant, str):
        return []  # said elsewhere
    problems = []
    method = given.get("method", defaults()["method"])
    study = MEASURES[measure].study
    if (variant or study) and method != HDC_FL:
        what = f"variant = {variant!r}" if variant else f"measure = {measure!r}"
        problems.append(f"{what}: only for method '{HDC_FL}', not {method!r}")
    if study and variant not in _variants(measure):
        problems.append(
            f"variant = {variant!r}: with measure {measure!r} there is "
            f"{' or '.join(map(repr, _variants(measure)))} only"
        )
    elif variant:
        try:
            variant_named(variant)
        except ValueError as error:
            problems.append(f"variant: {error}")
    return problems


def _variants(measure: str) -> tuple[str, ...]:
    return ("", RAW_HEADS) if measure == "grouping" else ("",)
