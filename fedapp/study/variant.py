"""The variants of a cache by name, and the values that sweeps try."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from fedapp.config import suggestion
from fedapp.hdc.refresh_state import RAW
from fedapp.study.bench import Bench
from fedapp.study.place import StudyError

SOFT = "soft"
SHARED, OWN, POPULATION, HARD, RAW_HEADS, RANDOM = (
    "shared",
    "own",
    "population",
    "hard",
    "raw",
    "random-groups",
)
KINDS = (SHARED, OWN, POPULATION, HARD, SOFT, RAW_HEADS, RANDOM)
"""The variants that every study has, in the order of tables."""

MIX, TEMPERATURE = "mix", "temperature"
MIXES = (0.25, 0.5, 0.75)
TEMPERATURES = (0.01, 0.03, 0.3, 1.0)
"""Tried where nothing else is asked for; ``own`` is mix 0, ``soft`` the run's own."""


@dataclass(frozen=True)
class Variant:
    """One variant by kind; sweeps have a value."""

    kind: str
    value: float | None = None

    @property
    def name(self) -> str:
        """Its name in files and tables."""
        return self.kind if self.value is None else f"{self.kind}={self.value:g}"


def variant_named(name: str) -> Variant:
    """Return the variant of a name, such as ``own`` or ``mix=0.5``.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    kind, equals, text = name.partition("=")
    if not equals and kind in KINDS:
        return Variant(kind)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    fits = {MIX: 0 <= value <= 1, TEMPERATURE: 0 < value < inf}
    if fits.get(kind) and Variant(kind, value).name == name:
        return Variant(kind, value)
    hint = suggestion(name, KINDS)
    raise ValueError(
        f"there is no variant {name!r}; use one of {', '.join(KINDS)}, mix=0.5 or "
        f"temperature=0.3{hint}"
    )


def sweeps(
    bench: Bench, mixes: Sequence[float] | None, temperatures: Sequence[float] | None
) -> tuple[list[float], list[float]]:
    """Return the values to try: those asked for, each once, or else a few of each.

    Raises
    ------
    StudyError
        If a temperature is not positive.
    """
    if not mixes and not temperatures:
        rule = bench.rule()
        mixes = [value for value in MIXES if value != rule.mix]
        temperatures = [value for value in TEMPERATURES if value != rule.temperature]
    for value in temperatures or ():
        if not value > 0:
            raise StudyError(f"a temperature must be positive; got {value:g}")
    return list(dict.fromkeys(mixes or ())), list(dict.fromkeys(temperatures or ()))


def variants_of(
    bench: Bench, *, mixes: Sequence[float], temperatures: Sequence[float]
) -> list[Variant]:
    """Return the variants that the bench allows, then the sweeps."""
    kinds = [kind for kind in KINDS if kind != RAW_HEADS or RAW in bench.state]
    return [
        *(Variant(kind) for kind in kinds),
        *(Variant(MIX, value) for value in mixes),
        *(Variant(TEMPERATURE, value) for value in temperatures),
    ]
