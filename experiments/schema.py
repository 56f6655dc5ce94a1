"""What may stand in a table file, key by key."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from experiments.measures import ALSO, MEASURES, RANKED, REPORTED, needed
from fedapp.config import Section, describe, suggestion

Text = Annotated[str, Field(min_length=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
M = TypeVar("M", bound=Section)


class TableFile(Section):
    """A whole file; its cells are checked one by one, as ``CellEntry``."""

    paper: Text
    shows: Text
    measure: Text
    also: Annotated[list[Text], Field(default_factory=list)]
    seeds: Annotated[list[Seed], Field(min_length=1)]
    all: Annotated[dict[str, Any], Field(default_factory=dict)]
    cell: Annotated[list[dict[str, Any]], Field(min_length=1)]


class CellEntry(Section):
    """One ``[[cell]]``; ``paper-says`` is as papers print it: accuracies in per cent.

    ``same_as`` names the cell whose runs this one shows, ``variant`` a variant of
    HDC-FL that its runs are scored with.
    """

    row: Text
    column: str = ""
    paper_says: Annotated[float, Field(ge=-100, le=100)] | None = None
    same_as: str = ""
    variant: str = ""
    set: Annotated[dict[str, Any], Field(default_factory=dict)]


def parse(model: type[M], found: Mapping[str, Any]) -> tuple[M | None, list[str]]:
    """Return what was found as a model, or None and one line for each problem."""
    known = [field.alias or name for name, field in model.model_fields.items()]
    try:
        return model.model_validate(found), []
    except ValidationError as error:
        lines = describe(error, known=known)
        return None, [line.replace("no such setting", "no such key") for line in lines]


def wrong_words(file: TableFile) -> list[str]:
    """Return what is wrong with the words and the seeds of a well-formed file."""
    found = []
    if file.measure not in MEASURES:
        hint = suggestion(file.measure, MEASURES)
        options = ", ".join(MEASURES)
        found.append(f"measure = {file.measure!r}: expected one of {options}{hint}")
    for word in file.also if file.measure in MEASURES else ():
        if word not in ALSO:
            hint = suggestion(word, ALSO)
            found.append(f"also: {word!r}: expected one of {', '.join(ALSO)}{hint}")
        elif word in RANKED and not set(REPORTED) <= set(needed(file.measure)):
            found.append(f"also: {word!r} goes with measures of accuracy only")
    twice = sorted({seed for seed in file.seeds if file.seeds.count(seed) > 1})
    return found + [f"seeds: {seed} is there twice" for seed in twice]
