import statistics

import pytest

from experiments.measures import (
    MEASURES,
    OF_UNSEEN,
    numbers_of,
    over_seeds,
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


def test_an_accuracy_that_a_run_lacks_is_left_out():
    runs = [{"mean": 0.8, "unseen_alone": 0.5}, {"mean": 0.6}]
    assert list(summarise(runs, ["mean", "unseen_alone"])) == ["mean"]


def test_every_measure_is_in_the_summary_of_a_run():
    models = {m: {"mean": 0.5, "worst": 0.25} for m in ("shared", "alone")}
    unseen = {"clients": 1, "mean": 0.75, "worst": 0.625, "models": models}
    accuracy = dict.fromkeys(ACCURACIES, 0.875)
    found = numbers_of({"accuracy": accuracy, "unseen": unseen})
    assert set(MEASURES.values()) | set(OF_UNSEEN) <= set(found)
    assert [found[name] for name in OF_UNSEEN] == [
        *(0.875, 0.75, 0.625, 0.5, 0.25, 0.5, 0.25)
    ]
    assert numbers_of({"accuracy": accuracy, "unseen": None}) == accuracy
