import math

import pytest

from fedapp.metrics import over_clients, ranks

TEN = [0.9, 0.8, 0.7, 0.95, 0.6, 0.85, 0.75, 0.92, 0.88, 0.65]


def test_ten_clients():
    found = over_clients(TEN, [1] * 10)
    assert found["mean"] == pytest.approx(0.8)
    assert found["worst"] == 0.6
    assert found["bottom20"] == pytest.approx(0.625)
    assert found["gap"] == pytest.approx(0.35)
    assert found["std"] == pytest.approx(
        math.sqrt(sum((a - 0.8) ** 2 for a in TEN) / 10)
    )


def test_the_bottom_fifth_of_seven_is_two():
    found = over_clients([0.5, 0.6, 0.7, 0.8, 0.9, 0.55, 0.65], [1] * 7)
    assert found["bottom20"] == pytest.approx(0.525)


def test_the_bottom_fifth_of_fifteen_is_three():
    # 0.2 * 15 is slightly above 3 in floats.
    found = over_clients([k / 15 for k in range(15)], [1] * 15)
    assert found["bottom20"] == pytest.approx((0 + 1 + 2) / 3 / 15)


def test_the_weighted_mean_counts_samples():
    found = over_clients([0.5, 1.0], [30, 10])
    assert found["weighted_mean"] == pytest.approx((15 + 10) / 40)
    assert found["mean"] == pytest.approx(0.75)


def test_nobody_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        over_clients([], [])


def test_ties_share_the_average_rank():
    first = ranks({"a": 0.90, "b": 0.88, "c": 0.88, "d": 0.70})
    second = ranks({"a": 0.60, "b": 0.55, "c": 0.62, "d": 0.60})
    assert list(first.values()) == [1, 2.5, 2.5, 4]
    assert list(second.values()) == [2.5, 4, 1, 2.5]
    averages = [(first[m] + second[m]) / 2 for m in "abcd"]
    assert averages == [1.75, 3.25, 1.75, 3.25]
