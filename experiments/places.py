"""Where a row stands among those of its column, and over all columns."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments.measures import REPORTED
from experiments.results import CellResult
from fedapp.metrics import ranks

RANKS = {"rank": "rank", "tail-rank": "tail_rank"}
"""Words of a table file that ask for a place, and the fields of ``Place``."""


class Place(NamedTuple):
    """1 is the best; ties share the average.

    ``rank`` is by mean accuracy, ``tail_rank`` the mean of the ranks by worst client
    and by bottom 20 %.
    """

    rank: float
    tail_rank: float


class Average(NamedTuple):
    """A row over all columns: the reported accuracies and its place."""

    accuracy: Mapping[str, float]
    place: Place


def places(cells: Sequence[CellResult]) -> dict[str, Place]:
    """Return the places of all cells by name.

    There are none in a column that is not finished or whose numbers are no accuracies.
    """
    found: dict[str, Place] = {}
    for column in dict.fromkeys(found_.cell.column for found_ in cells):
        mine = [found_ for found_ in cells if found_.cell.column == column]
        if any(not found_.numbers.keys() >= REPORTED.keys() for found_ in mine):
            continue
        mean, worst, bottom = (
            ranks({found_.cell.name: found_.numbers[name][0] for found_ in mine})
            for name in ("mean", "worst", "bottom20")
        )
        for name in mean:
            found[name] = Place(mean[name], (worst[name] + bottom[name]) / 2)
    return found


def averages(cells: Sequence[CellResult]) -> dict[str, Average]:
    """Return each row over all columns, columns counting equally.

    Nothing if there is but one column, a column is not finished, or a row is not in
    all of them.
    """
    columns = dict.fromkeys(found.cell.column for found in cells)
    rows = dict.fromkeys(found.cell.row for found in cells)
    where = places(cells)
    everywhere = len(cells) == len(columns) * len(rows)
    if len(columns) < 2 or not everywhere or len(where) < len(cells):
        return {}
    result = {}
    for row in rows:
        mine = [found for found in cells if found.cell.row == row]
        accuracy = {
            name: _mean([found.numbers[name][0] for found in mine]) for name in REPORTED
        }
        at = [where[found.cell.name] for found in mine]
        place = Place(_mean([p.rank for p in at]), _mean([p.tail_rank for p in at]))
        result[row] = Average(accuracy, place)
    return result


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
