import statistics

import pytest

from experiments.measures import ARI, MEASURES, over_seeds, summarise
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


def test_every_measure_is_in_the_summary_of_a_run():
    assert set(MEASURES.values()) - {ARI} <= set(ACCURACIES)
