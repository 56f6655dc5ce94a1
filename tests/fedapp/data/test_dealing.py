"""Dealing in rounds."""

import numpy as np

from fedapp.data.dealing import deal, deal_equally


def test_a_dealt_quota_is_proportional_to_the_weights():
    quota = deal(np.array([[0.5, 0.3, 0.2]]), np.array([100]), np.full(3, 100))
    assert quota.tolist() == [[50, 30, 20]]


def test_once_a_class_has_run_out_the_rest_keep_their_proportions():
    # 10 of the first class; the other 90 in proportion 3 : 2.
    quota = deal(np.array([[0.5, 0.3, 0.2]]), np.array([100]), np.array([10, 99, 99]))
    assert quota.tolist() == [[10, 54, 36]]


def test_a_scarce_class_is_shared_evenly_among_equal_clients():
    weights = np.tile([0.9, 0.1], (4, 1))
    quota = deal(weights, np.full(4, 50), np.array([22, 500]))
    assert sorted(quota[:, 0].tolist()) == [5, 5, 6, 6]
    assert quota.sum(axis=1).tolist() == [50] * 4


def test_the_last_samples_of_scarce_classes_do_not_all_go_to_one_client():
    # Eight classes of 5 for 4 clients: each has one sample more than can be shared.
    weights = np.tile([*np.linspace(1.0, 0.9, 8), 0.001], (4, 1))
    quota = deal(weights, np.full(4, 30), np.array([5] * 8 + [500]))
    assert quota[:, :8].sum(axis=1).tolist() == [10] * 4


def test_dealing_can_cover_every_class_first():
    weights = np.array([[100.0, 1.0, 1.0]])
    plain = deal(weights, np.array([10]), np.full(3, 50))
    cover = deal(weights, np.array([10]), np.full(3, 50), all_classes=True)
    assert plain.tolist() == [[10, 0, 0]]
    assert cover.tolist() == [[8, 1, 1]]


def test_equal_dealing_stops_where_the_first_client_finds_nothing():
    weights = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    quota = deal_equally(weights, np.full(3, 30), np.array([40, 100]))
    assert quota.tolist() == [[20, 0], [20, 0], [0, 20]]


def test_a_client_is_given_room_by_a_chain_of_others():
    # Class 0 is wanted by all; only if client 1 moves to class 1 and client 2 from
    # class 1 to class 2 does everyone get 20.
    weights = np.array([[1.0, 0.0, 0.0], [9.0, 1.0, 0.0], [0.0, 9.0, 1.0]])
    quota = deal(weights, np.full(3, 20), np.full(3, 20))
    assert quota.sum(axis=1).tolist() == [20, 20, 20]
    assert quota[0].tolist() == [20, 0, 0]
    assert (quota[weights == 0] == 0).all()
