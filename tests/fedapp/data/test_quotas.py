"""Whole-number shares."""

import numpy as np
import pytest

from fedapp.data.quotas import (
    apportion,
    confine,
    fill_up,
    follow,
    pair_up,
    share_for_test,
    thin,
)


def ints(*rows):
    return np.array(rows, dtype=np.int64)


def test_apportion_gives_largest_remainders_the_rest():
    # 10 in proportion 5 : 3 : 1 is 5.56, 3.33, 1.11; one is left for the first.
    weights = np.array([5, 3, 1])
    share = apportion(weights, 10, low=0 * weights, high=np.full(3, 99))
    assert share.tolist() == [6, 3, 1]


def test_apportion_keeps_bounds_and_total():
    weights = np.array([90, 9, 1])
    low, high = np.array([0, 0, 3]), np.array([88, 20, 9])
    assert apportion(weights, 100, low=low, high=high).tolist() == [88, 9, 3]


def test_thinning_keeps_proportions_and_small_clients():
    quota = thin(ints([40, 20, 0], [3, 0, 4]), np.array([15, 15]))
    assert quota.tolist() == [[10, 5, 0], [3, 0, 4]]


def test_confined_samples_go_to_those_who_may_hold_them():
    allowed = np.array([[False], [True], [True]])
    assert confine(ints([6], [2], [1]), allowed).ravel().tolist() == [0, 6, 3]


def test_filling_up_takes_from_the_largest_a_class_the_small_one_holds():
    quota = ints([2, 1], [30, 5], [10, 9])
    filled, notes = fill_up(quota, 15, np.ones((3, 2), bool))
    assert filled.tolist() == [[14, 1], [18, 5], [10, 9]]
    assert notes == [
        "12 samples of class 0 moved from client 1 to client 0, which had 3 of 15"
    ]


def test_filling_up_says_when_no_one_can_spare_an_allowed_class():
    allowed = np.array([[True, False], [True, True]])
    with pytest.raises(ValueError, match=r"client 0 .* classes \[0\] only"):
        fill_up(ints([3, 0], [0, 40]), 15, allowed)


def test_single_samples_are_traded_for_classes_held_anyway():
    quota = ints([1, 6], [5, 5])
    traded = pair_up(quota)
    assert traded.tolist() == [[0, 7], [6, 4]]
    assert traded.sum(axis=1).tolist() == quota.sum(axis=1).tolist()


def test_a_trade_does_not_leave_a_new_single():
    # Client 1 would be left with one sample of class 1, so no trade is made.
    quota = ints([1, 6], [5, 2])
    assert pair_up(quota).tolist() == quota.tolist()


def test_every_class_is_in_both_parts_where_counts_allow_it():
    part = share_for_test(ints([40, 2, 2, 1]), np.array([11]))
    # 45 samples, 11 for test: 9.78, .49, .49, .24; then at least one of a pair, and
    # not the only sample of the last class.
    assert part.tolist() == [[9, 1, 1, 0]]


def test_a_test_part_smaller_than_the_number_of_classes_takes_the_largest():
    part = share_for_test(ints([2, 9, 2, 8, 7, 6, 5]), np.array([5]))
    assert part.tolist() == [[0, 1, 0, 1, 1, 1, 1]]


def test_official_test_samples_follow_the_training_quota():
    quota = follow(ints([60, 0], [39, 10], [1, 30]), np.array([20, 8]))
    assert quota.tolist() == [[12, 0], [7, 2], [1, 6]]
