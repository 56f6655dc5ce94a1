"""Studies of a cache in the report: shown if they are there, never in its way."""

import csv
import json
import re

import numpy as np
import pytest
from made_run import write_groups, write_run
from matplotlib import rc_context

from fedapp.report.drawing import STYLE
from fedapp.report.folder import load
from fedapp.report.parts import SwapRow
from fedapp.report.run_page import run_page
from fedapp.report.study_tables import variant_notes
from fedapp.report.swap_figures import (
    _found,
    _matrix,
    gain_figure,
    matrices,
    swap_figures,
)
from fedapp.study import swap_results, variant_results
from fedapp.study.swap import Swaps

ACCURACY = {"mean": 0.75, "worst": 0.5, "bottom20": 0.5, "gap": 0.375}
DIFFERENCE = {"mean": -0.125, "better": 1, "alike": 0, "worse": 3}
GROUPING = {
    "groups": 2,
    "silhouette": 0.625,
    "ari_previous": None,
    "ari_latent": 1.0,
    "mean_silhouette": 0.5,
    "mean_ari_previous": None,
}
VARIANTS = {
    "round": 4,
    "as_run": {"variant": "soft", "equal": True},
    "variants": {
        "own": {"accuracy": ACCURACY, "loss": 1.5, "minus_soft": DIFFERENCE},
    },
    "grouping": {"projected": GROUPING, "raw": None},
    "notes": ["groups are old"],
}
SIMILARITY = np.array([[1, 0.9, 0.1], [0.9, 1, 0.2], [0.1, 0.2, 1]])
LOSS = np.array([[0.5, 0.25, 0.75], [0.5, 0.5, 1.5], [1.0, 1.25, 0.25]])
SWAPS = Swaps(
    clients=(0, 1, 3),
    similarity=SIMILARITY,
    loss=LOSS,
    accuracy=np.full((3, 3), 0.5),
    found=(0, 0, 1),
    latent=(0, 1, 1),
)


class FakeBench:
    """What the results of a swap ask of a bench."""

    def __init__(self, path):
        run = load(path)
        self.manifest = run.manifest
        self.commit = type("Commit", (), {"round": 4})
        self.place = type("Place", (), {"path": path})


@pytest.fixture
def path(tmp_path):
    made = write_run(tmp_path / "run", method="hdc-fl")
    write_groups(made)
    return made


def text_of(path) -> str:
    run = load(path)
    return re.sub(r"<[^>]+>", " ", run_page(run, [], run.missing))


def test_without_studies_nothing_is_said(path):
    assert "Donor swap" not in text_of(path)
    assert "same cache" not in text_of(path)


def test_variants_are_a_table_with_their_notes(path):
    (path / variant_results.ROWS).write_text("round\n")
    (path / variant_results.SUMMARY).write_text(json.dumps(VARIANTS))
    text = " ".join(text_of(path).split())
    assert "own 75.00 % 50.00 % 50.00 % 37.50 % 1.5000 -12.50 1 0 3" in text
    assert "projected 2 0.625 - 1.000 0.500 -" in text
    assert "Groups are old." in text
    assert "came out again, bit for bit: soft" in text


def test_scores_that_differ_are_said_to():
    def last(own):
        return variant_notes({**VARIANTS, "as_run": own})[-1]

    assert "the scores differ" in last({"variant": "soft", "equal": False})
    assert "was not evaluated" in last(None)


def test_a_summary_without_its_table_counts_for_nothing(path):
    """A resumed run deletes tables of rounds to come."""
    (path / variant_results.SUMMARY).write_text(json.dumps(VARIANTS))
    assert "same cache" not in text_of(path)


@pytest.mark.parametrize("text", ["", "[]", '{"round": 4}', '{"variants": 3'])
def test_a_broken_summary_is_named_and_the_page_is_there(path, text):
    (path / variant_results.ROWS).write_text("round\n")
    (path / variant_results.SUMMARY).write_text(text)
    found = text_of(path)
    assert "hdc-fl/variants.json cannot be read" in found
    assert "All settings" in found


def test_a_swap_has_a_table(path):
    swap_results.write(FakeBench(path), SWAPS)
    text = " ".join(text_of(path).split())
    assert "Donor swap at round 4: 6 ordered pairs of 3 clients" in text
    # Gains: .25 and -.25, 0 and -1, -.75 and -1: one of six.
    assert "swaps that lower the loss 16.67 %" in text


def rows(path) -> list[SwapRow]:
    swap_results.write(FakeBench(path), SWAPS)
    with (path / swap_results.PAIRS).open() as stream:
        return [SwapRow.model_validate(row) for row in csv.DictReader(stream)]


def test_figures_say_what_is_in_them(path):
    pairs = rows(path)
    with rc_context(STYLE):
        gain, both = gain_figure(pairs, latent=True), matrices(pairs, ())
    assert "6 pairs; 16.7 % have a gain" in gain.alt
    # Six parts of one pair; of the two most similar pairs the later has gain 0.
    assert "least similar part -0.250, of the most similar part +0.000" in gain.alt
    assert "3 clients. Similarity from 0.10 to 0.90" in both.alt
    assert "gain from -1.000 to +0.250" in both.alt
    assert gain.svg.count("latent group") == 2


def test_matrices_come_back_from_their_pairs(path):
    pairs, clients = rows(path), [0, 1, 3]
    assert _matrix(pairs, clients, "similarity").tolist() == SIMILARITY.tolist()
    gain = np.diag(LOSS)[:, None] - LOSS
    assert _matrix(pairs, clients, "gain").tolist() == gain.tolist()
    assert _found(pairs, clients) == [0, 0, 1]


def test_a_broken_table_of_pairs_is_named(path):
    swap_results.write(FakeBench(path), SWAPS)
    file = path / swap_results.PAIRS
    file.write_text(file.read_text().replace("0.9", "much"))
    missing: list[str] = []
    assert list(swap_figures(path, (), missing)) == []
    assert "hdc-fl/swap.csv cannot be read" in missing[0]


def test_without_a_swap_there_is_no_figure_and_nothing_missing(path):
    missing: list[str] = []
    assert list(swap_figures(path, (), missing)) == missing == []
