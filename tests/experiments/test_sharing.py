"""Rows that show another row's runs, or a variant of them: nothing is trained twice."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from table_files import TINY, cell, run_of, table, table_file, whole

from experiments import child
from experiments.measures import MEASURES
from experiments.page import markdown
from experiments.plan import plan
from experiments.results import gather
from experiments.store import Run, merged, result_of
from experiments.studies import Need, carry_out
from experiments.table import TableError, read_table
from fedapp.study.place import StudyError
from fedapp.workplace import cache_folder

HDC = {"method": "hdc-fl", "data.clients": 5, "hdc-fl.activation": "always"}


def alias(row: str, of: str = "HDC-FL", **more: str) -> dict[str, Any]:
    return {"row": row, "same-as": of, **more}


def problems(folder: Path, *cells: Any, **changes: Any) -> list[str]:
    with pytest.raises(TableError) as caught:
        read_table(table_file(folder, *cells, **changes))
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (
            alias("x", "HDCFL"),
            "same-as = 'HDCFL': there is no cell of that name with runs of its own; "
            "did you mean 'HDC-FL'?",
        ),
        (
            alias("x") | {"set": {"method": "fedper"}},
            "set: a cell with same-as shows the runs of another; leave set out",
        ),
        (
            alias("x", "a", variant="own"),
            "variant = 'own': only for method 'hdc-fl', not 'fedavg'",
        ),
        (
            alias("x", variant="owm"),
            "variant: there is no variant 'owm'; use one of shared, own, population, "
            "hard, soft, raw, random-groups, mix=0.5 or temperature=0.3; did you mean "
            "'own'?",
        ),
    ],
)
def test_what_a_cell_cannot_show(tmp_path: Path, one: dict[str, Any], line: str):
    found = problems(tmp_path, cell("a"), cell("HDC-FL", set=HDC), one)
    assert found == [f"table.toml: cell 3 (x): {line}"]


@pytest.mark.parametrize("variant", ["mix=2", "mix=", "temperature=0", "own=1", "mix"])
def test_sweeps_have_values_that_can_be(tmp_path: Path, variant: str):
    (line,) = problems(tmp_path, cell("HDC-FL", set=HDC), alias("x", variant=variant))
    assert f"there is no variant {variant!r}" in line


def test_an_alias_of_an_alias(tmp_path: Path):
    cells = [cell("a"), alias("b", "a"), alias("c", "b")]
    (line,) = problems(tmp_path, *cells)
    assert "cell 3 (c): same-as = 'b'" in line


def test_studies_are_of_hdc_fl_only(tmp_path: Path):
    (line,) = problems(tmp_path, cell("a"), measure="donor-swap")
    assert "measure = 'donor-swap': only for method 'hdc-fl', not 'fedavg'" in line
    cells = [cell("HDC-FL", set=HDC), alias("x", variant="own")]
    (line,) = problems(tmp_path, *cells, measure="grouping")
    assert "with measure 'grouping' there is '' or 'raw' only" in line


def test_one_variant_twice_has_one_meaning(tmp_path: Path):
    cells = [cell("HDC-FL", set=HDC), *(alias(x, variant="own") for x in "xy")]
    (line,) = problems(tmp_path, *cells)
    assert "cells 'x' and 'y' have the same settings" in line


def test_a_shown_run_has_the_identity_of_its_cell(tmp_path: Path):
    cells = [alias("b", "a / z", variant="own"), cell("a", column="z", set=HDC)]
    found = table(tmp_path, *cells, alias("c", "a / z"), cell("d", "local"))
    runs = [run_of(one, out=tmp_path) for one in found.cells]
    assert len({run.identity for run in runs[:3]}) == 1
    both = merged(runs)
    assert [run.cell.name for run in both] == ["a / z", "d"]
    assert both[0].needs == {Need("variants", "own")}
    assert both[1].needs == frozenset()


@pytest.fixture(scope="module")
def studied(tmp_path_factory) -> Callable[..., list[Run]]:
    """Return the runs of a table, done as its runner would do them."""
    out = tmp_path_factory.mktemp("out")

    def do(folder: Path, *cells: Any, **changes: Any) -> list[Run]:
        shared = TINY | HDC
        found = table(folder, *cells, seeds=[1], shared=shared, **changes)
        runs = plan(found, data=None, out=out, cache=cache_folder())
        for run in merged(runs):
            order = {
                "config": run.config,
                "identity": run.identity,
                "code": run.code,
                "data": run.data_key,
                "needs": [list(need) for need in run.needs],
            }
            if not run.done:
                child.do(json.loads(json.dumps(order)))
        return runs

    return do


CELLS = (
    {"row": "HDC-FL"},
    alias("own", variant="own"),
    alias("half", variant="mix=0.5"),
    alias("again"),
)


def test_rows_of_one_run_show_its_variants(tmp_path: Path, studied):
    runs = studied(tmp_path, *CELLS)
    hdc, own, half, again = (result_of(run).numbers for run in runs)
    folder = runs[0].folder
    summary = json.loads((folder / "summary.json").read_text())["accuracy"]
    found = json.loads((folder / "hdc-fl/variants.json").read_text())["variants"]
    assert hdc == again
    assert hdc.items() >= summary.items()
    assert summary == found["soft"]["accuracy"]
    assert own == found["own"]["accuracy"]
    assert half == found["mix=0.5"]["accuracy"]
    assert len({run.folder for run in runs}) == 1
    assert all(run.done for run in runs)


def test_a_finished_run_is_studied_without_training(tmp_path: Path, studied):
    (first, *_) = studied(tmp_path, *CELLS)
    record = first.folder / "experiment.json"
    before = record.stat().st_mtime_ns
    more = (*CELLS, alias("cold", variant="temperature=0.01"))
    runs = studied(tmp_path, *more)
    assert record.stat().st_mtime_ns == before
    # What was there before is there still.
    assert all(run.done for run in runs)


def test_swaps_and_groupings_are_numbers_too(tmp_path: Path, studied):
    (run,) = studied(tmp_path, {"row": "HDC-FL"}, measure="donor-swap")
    facts = json.loads((run.folder / "hdc-fl/swap.json").read_text())
    numbers = result_of(run).numbers
    assert set(numbers) >= set(MEASURES["donor-swap"].names)
    assert numbers["rho"] == facts["rho"]
    assert numbers["purity"] == facts["latent_groups"]["purity"]
    assert numbers["partial"] == facts["overlap"]["jaccard"]["by_target"]["partial"]
    cells = ({"row": "HDC-FL"}, alias("raw", variant="raw"))
    projected, raw = studied(tmp_path, *cells, measure="grouping")
    with (run.folder / "hdc-fl/refreshes.csv").open() as stream:
        last = list(csv.DictReader(stream))[-1]
    for one, end in ((projected, ""), (raw, "_raw")):
        got = result_of(one).numbers["silhouette"]
        assert got == (
            float(last[f"silhouette{end}"]) if last[f"silhouette{end}"] else None
        )


def test_without_its_study_a_row_is_missing_and_the_run_is_not(tmp_path: Path, studied):
    runs = studied(tmp_path, *CELLS)
    file = runs[0].folder / "hdc-fl/variants.json"
    text = file.read_text()
    try:
        for broken in ("", text[:50]):
            file.write_text(broken)
            found = [result_of(run).status for run in runs]
            assert found == ["finished", "missing", "missing", "finished"]
    finally:
        file.write_text(text)


def test_a_variant_that_the_run_does_not_have_is_an_error(tmp_path: Path, studied):
    run, *_ = studied(tmp_path, *CELLS)
    with pytest.raises(ValueError, match="no variant 'sfot'"):
        carry_out(run.folder, [Need("variants", "sfot")], data_path="")
    with pytest.raises(StudyError, match="is not a run folder"):
        carry_out(tmp_path / "none", [Need("swap")], data_path="")


def test_the_page_says_whose_runs_are_shown(tmp_path: Path):
    found = table(tmp_path, *CELLS, seeds=[1], shared=TINY | HDC)
    runs = [(run_of(one), whole(0.9, 0.8, 0.85, 0.1)) for one in found.cells]
    lines = markdown(gather(found, runs)).splitlines()
    assert "- own: the runs of HDC-FL, variant `own`" in lines
    assert "- again: the runs of HDC-FL" in lines
    # All that HDC-FL is set to, all cells are set to.
    assert [line for line in lines if line.startswith("Settings of")] == [
        "Settings of all cells:"
    ]
