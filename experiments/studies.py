"""Studies of finished runs: which a table needs, doing them, and their numbers.

They train nothing, so that rows of a table may share one run.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from experiments.measures import MEASURES, SWAP, VARIANTS, Numbers
from fedapp.launch import read_json
from fedapp.study import swap_results, variant_results
from fedapp.study.grouping import PROJECTED
from fedapp.study.opening import open_bench
from fedapp.study.place import StudyError, find
from fedapp.study.swap import swap
from fedapp.study.variant import SOFT, variant_named, variants_of
from fedapp.study.variants import evaluate

FILES = {VARIANTS: variant_results.SUMMARY, SWAP: swap_results.SUMMARY}


class Need(NamedTuple):
    """A study, and the variant it must have, if any."""

    study: str
    variant: str = ""


def need_of(measure: str, variant: str) -> Need | None:
    """Return what a cell needs beyond its runs."""
    study = MEASURES[measure].study
    if study == VARIANTS:
        return Need(VARIANTS, SOFT)
    if study:
        return Need(study)
    return Need(VARIANTS, variant) if variant else None


def there(folder: Path, need: Need) -> bool:
    """Return whether a run folder has what is needed."""
    return _holds(_summary(folder, need.study), need)


def carry_out(folder: Path, needs: Iterable[Need], *, data_path: str) -> None:
    """Do what is not there, in this process.

    Raises
    ------
    StudyError
        If the run cannot be studied, or has no such variant.
    """
    missing = [need for need in needs if not there(folder, need)]
    if not missing:
        return
    bench = open_bench(find(folder, round=None, data_path=data_path))
    names = [need.variant for need in missing if need.study == VARIANTS]
    if names:
        names += _summary(folder, VARIANTS).get("variants", {})
        kinds = variants_of(bench, mixes=(), temperatures=())
        sweeps = [one for one in map(variant_named, names) if one.value is not None]
        chosen = list(dict.fromkeys([*kinds, *sweeps]))
        variant_results.write(bench, evaluate(bench, chosen, processes=1))
    if any(need.study == SWAP for need in missing):
        swap_results.write(bench, swap(bench, processes=1))
    for need in missing:
        if not there(folder, need):
            raise StudyError(f"the run has no variant {need.variant!r}")


def numbers_of(folder: Path, measure: str, variant: str) -> Numbers | None:
    """Return the numbers of a cell that has a need; None if the study is not there."""
    need = need_of(measure, variant)
    assert need is not None
    found = _summary(folder, need.study)
    if not _holds(found, need):
        return None
    if need.study == SWAP:
        return _of_swap(found)
    if MEASURES[measure].study:
        return found["grouping"][variant or PROJECTED] or {}
    return found["variants"][variant]["accuracy"]


def _of_swap(found: Mapping[str, Any]) -> Numbers:
    overlap = found["overlap"]
    return {
        **{name: found[name] for name in ("rho", "auroc", "beneficial")},
        "benefit": found["nearest"]["benefit"],
        **(found["latent_groups"] or {}),
        "overlap": overlap["jaccard"]["by_target"]["similarity_overlap"],
        "partial": overlap["jaccard"]["by_target"]["partial"],
        "partial_cosine": overlap["cosine"]["by_target"]["partial"],
    }


def _summary(folder: Path, study: str) -> dict[str, Any]:
    try:
        return read_json(folder / FILES[study])
    except ValueError:  # truncated
        return {}


def _holds(summary: Mapping[str, Any], need: Need) -> bool:
    return (
        need.variant in summary.get("variants", {}) if need.variant else bool(summary)
    )
