"""Sections of a run's page on studies of its cache, where there are some.

Studies are made by ``fedapp hdc``. When a run is resumed, their tables are deleted with
the other tables of rounds to come, and a summary without its table counts for nothing.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedapp.report import study_tables as tables
from fedapp.report.html import Html, section, table
from fedapp.report.page import bullets

VARIANTS, SWAP = "hdc-fl/variants", "hdc-fl/swap"


def sections(path: Path) -> Iterator[Html]:
    """Yield the sections of the studies in the run folder ``path``."""
    for name, title, inside in (
        (VARIANTS, "Other memberships, same cache", _variants),
        (SWAP, "Donor swap", _swap),
    ):
        summary = summary_of(path, name)
        if summary is None:
            continue
        try:
            yield section(title, *inside(summary))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            broken = f"{name}.json cannot be read: {type(error).__name__} {error}."
            yield section(title, bullets([broken]))


def summary_of(path: Path, name: str) -> Mapping[str, Any] | None:
    """Return the summary of a study; None if there is none, or its table is gone."""
    if not (path / f"{name}.csv").is_file():
        return None
    try:
        found = json.loads((path / f"{name}.json").read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _variants(summary: Mapping[str, Any]) -> Iterator[Html]:
    caption = f"Test accuracy at round {summary['round']}; nothing was trained"
    yield table(caption, tables.VARIANTS, tables.variant_rows(summary))
    rows = tables.grouping_rows(summary)
    yield table("How heads were grouped", tables.GROUPING, rows)
    yield bullets(tables.variant_notes(summary))


def _swap(summary: Mapping[str, Any]) -> Iterator[Html]:
    rows = tables.swap_rows(summary)
    yield table(tables.swap_title(summary), tables.SWAP, rows)
