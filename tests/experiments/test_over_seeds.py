import statistics

import pytest

from experiments.measures import (
    MEASURES,
    OF_ACCURACY,
    PLAIN,
    POINTS,
    SHARE,
    over_seeds,
    paper_value,
    printed,
    summarise,
)
from fedapp.summary import ACCURACIES


def test_mean_and_sample_deviation_by_hand():
    # 1, 2 and 6: mean 3; squares 4 + 1 + 9 = 14 over n - 1 = 2.
    assert over_seeds([1.0, 2.0, 6.0]) == (3.0, 7.0**0.5)


@pytest.mark.parametrize("values", [[0.81, 0.79], [0.913, 0.905, 0.9211, 0.87]])
def test_they_are_those_of_the_standard_library(values: list[float]):
    mean, deviation = over_seeds(values)
    assert mean == pytest.approx(statistics.mean(values), rel=1e-14)
    assert deviation == pytest.approx(statistics.stdev(values), rel=1e-12)


def test_one_seed_has_no_deviation():
    assert over_seeds([0.5]) == (0.5, None)


def test_each_accuracy_is_summarised_by_itself():
    runs = [{"mean": 0.8, "worst": 0.5, "gap": 9.0}, {"mean": 0.6, "worst": 0.1}]
    found = summarise(runs, ["mean", "worst"])
    assert list(found) == ["mean", "worst"]
    assert found["mean"] == (pytest.approx(0.7), pytest.approx(0.02**0.5))
    assert found["worst"][0] == pytest.approx(0.3)


def test_what_is_not_defined_in_some_run_is_left_out():
    runs = [{"rho": 0.5, "purity": None}, {"rho": 0.25, "purity": 0.75}]
    assert list(summarise(runs, ["rho", "purity"])) == ["rho"]


def test_every_accuracy_is_in_the_summary_of_a_run():
    of_summaries = [m for m in MEASURES.values() if m.about == OF_ACCURACY]
    assert len(of_summaries) == 5
    assert {name for m in of_summaries for name in m.names} <= set(ACCURACIES)
    assert all(measure.main in measure.names for measure in MEASURES.values())


def test_numbers_are_printed_by_kind():
    assert printed(SHARE, 0.8808, 0.0123) == "88.08 ± 1.23"
    assert printed(POINTS, 0.025, None) == "+2.50"
    assert printed(POINTS, -0.0346, 0.01) == "-3.46 ± 1.00"
    assert printed(PLAIN, 0.243, 0.01) == "0.243 ± 0.010"


def test_what_papers_print_becomes_a_fraction_if_it_is_a_share():
    assert paper_value("final-accuracy", 88.08) == 0.8808
    assert paper_value("donor-swap", 0.243) == 0.243
    assert paper_value("final-accuracy", None) is None
