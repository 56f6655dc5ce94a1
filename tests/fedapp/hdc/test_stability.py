"""Section 23.11, tests 4 and 8, and the floor of the contracts page."""

from dataclasses import replace

import numpy as np
import pytest

from fedapp.hdc.heads import descriptor, gram, principal_directions
from fedapp.hdc.stability import (
    Gate,
    Thresholds,
    advance,
    compare,
    head_change,
    snapshot,
)

HEADS = [
    np.array([[2, 0], [-1, 0], [-1, 0]], dtype=float),
    np.array([[2, 0.2], [-1, -0.2], [-1, 0]]),
    np.array([[0, -1], [0, 2], [0, -1]], dtype=float),
    np.array([[0.2, -1], [-0.2, 2], [0, -1]]),
]
MOVED = [HEADS[0], HEADS[1] + [[0, 0.3], [0, -0.3], [0, 0]], *HEADS[2:]]
LABELS = np.array([0, 0, 1, 1])
THRESHOLDS = Thresholds(
    min_silhouette=0.1,
    min_ari=0.8,
    max_change=0.2,
    min_head_change=0.05,
    stable_refreshes=2,
    latch=True,
)
GOOD = {"silhouette": 0.5, "ari": 0.9, "change": 0.1, "groups": 2, "head_change": 0.3}


def describe(heads, flips=(1, 1)):
    found = principal_directions(gram(heads), energy=0.8, rank=0)
    directions = found.directions * np.array(flips)
    return np.stack([descriptor(head, directions) for head in heads])


def refresh(heads, flips=(1, 1), clients=(0, 1, 2, 3), labels=LABELS):
    return snapshot(clients, np.array(labels), describe(heads, flips))


def run(refreshes, thresholds=THRESHOLDS):
    gate, states = Gate(), []
    for refresh in refreshes:
        gate = advance(gate, **(GOOD | refresh), thresholds=thresholds)
        states.append((gate.counter, gate.active))
    return states


@pytest.mark.parametrize("flips", [(1, 1), (-1, 1), (1, -1), (-1, -1)])
def test_change_of_similarity_ignores_the_signs_of_directions(flips):
    comparison = compare(refresh(MOVED, flips), refresh(HEADS))

    assert comparison is not None
    assert comparison == pytest.approx((1.0, 0.101819), abs=1e-6)


def test_change_of_similarity_by_the_formula():
    before, now = (describe(heads) for heads in (HEADS, MOVED))
    old, new = before @ before.T, now @ now.T
    expected = np.sqrt(((new - old) ** 2).sum() / (old**2).sum())

    _, change = compare(refresh(MOVED), refresh(HEADS))
    assert change == pytest.approx(expected, rel=1e-12)


def test_coordinates_of_two_refreshes_cannot_be_compared():
    """A flip that means nothing makes the coordinates look entirely new."""

    def naive(flips):
        before = describe(HEADS)
        return np.linalg.norm(describe(MOVED, flips) - before) / np.linalg.norm(before)

    # Flips of both columns are tried, since the sign of a direction is a convention.
    by_flip = {flips: naive(flips) for flips in [(1, 1), (1, -1), (-1, 1), (-1, -1)]}
    closest = min(by_flip, key=by_flip.__getitem__)
    second, first = (closest[0], -closest[1]), (-closest[0], closest[1])

    assert by_flip[closest] == pytest.approx(0.0829, abs=1e-4)
    assert by_flip[second] == pytest.approx(0.9961, abs=1e-4)
    assert by_flip[first] == pytest.approx(1.734, abs=1e-3)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ((0, 0, 1, 1), (1, 1, 0, 0), 1),
        ((0, 0, 1, 1), (0, 1, 1, 1), 0),
        ((0, 0, 0, 1, 1, 1), (0, 0, 1, 1, 2, 2), 0.242424),
    ],
)
def test_rand_index_ignores_names(before, now, expected):
    clients, rows = range(len(now)), np.eye(len(now))
    ari, change = compare(
        snapshot(clients, np.array(now), rows),
        snapshot(clients, np.array(before), rows),
    )

    assert ari == pytest.approx(expected, abs=1e-6)
    assert change == 0


def test_only_common_clients_are_compared():
    before = refresh(
        [*HEADS, HEADS[0]], clients=(0, 1, 2, 3, 8), labels=[0, 0, 1, 1, 0]
    )
    rows = np.vstack([describe(MOVED), describe(MOVED)[:1]])
    now = snapshot((0, 1, 2, 3, 9), np.array([0, 0, 1, 1, 1]), rows)
    old, new = describe([*HEADS, HEADS[0]])[:4], describe(MOVED)
    difference = np.linalg.norm(new @ new.T - old @ old.T)

    ari, change = compare(now, before)
    assert ari == 1
    assert change == pytest.approx(difference / np.linalg.norm(old @ old.T))


def test_three_common_clients_are_too_few():
    assert compare(refresh(MOVED, clients=(0, 1, 2, 4)), refresh(HEADS)) is None


def test_order_of_rows_changes_no_bit():
    order = [2, 0, 3, 1]
    mixed = snapshot(order, LABELS[order], describe(MOVED)[order])

    assert compare(mixed, refresh(HEADS)) == compare(refresh(MOVED), refresh(HEADS))


def test_counters_of_the_specification():
    values = [(0.5, None, None), (0.5, 0.9, 0.1), (0.5, 0.5, 0.1)]
    values += [(0.4, 0.95, 0.15), (0.4, 0.85, 0.12)]
    names = ("silhouette", "ari", "change")

    states = run(dict(zip(names, value, strict=True)) for value in values)
    assert [counter for counter, _ in states] == [0, 1, 0, 1, 2]
    assert [active for _, active in states] == [False] * 4 + [True]


@pytest.mark.parametrize(
    "failing",
    [
        {"silhouette": 0.09},
        {"silhouette": None},
        {"ari": 0.79},
        {"ari": None},
        {"change": 0.21},
        {"change": None},
        {"head_change": 0.049},
    ],
)
def test_each_threshold_alone_breaks_a_row(failing):
    assert run([{}, failing, {}]) == [(1, False), (0, False), (1, False)]


def test_values_at_the_thresholds_pass():
    exact = {"silhouette": 0.1, "ari": 0.8, "change": 0.2, "head_change": 0.05}

    assert run([exact])[0] == (1, False)


def test_one_group_is_not_asked_for_a_silhouette():
    one = {"groups": 1, "silhouette": None}

    assert run([one, one])[-1] == (2, True)
    assert run([one, one | {"ari": 0.5}])[-1] == (0, False)
    assert run([one, one | {"change": 0.5}])[-1] == (0, False)


def test_a_latched_gate_stays_active():
    bad = {"ari": 0.0}

    assert [active for _, active in run([{}, {}, bad, bad, bad])] == [False] + [
        True
    ] * 4


def test_without_latch_failures_in_a_row_deactivate():
    bad = {"ari": 0.0}
    refreshes = [{}, {}, bad, {}, bad, bad, {}, {}]
    states = run(refreshes, replace(THRESHOLDS, latch=False))

    assert [counter for counter, _ in states] == [1, 2, 0, 1, 0, 0, 1, 2]
    active = [False, True, True, True, True, False, False, True]
    assert [on for _, on in states] == active


def test_head_change_is_the_median_of_relative_moves():
    initial = np.array([[3.0, 0], [0, 4]])
    moves = [np.array([[0.0, step], [0, 0]]) for step in (1, 2, 50)]

    assert head_change((initial + move for move in moves), initial) == 2 / 5
    assert head_change([initial] * 3, initial) == 0


def test_any_move_from_a_zero_head_counts():
    zero = np.zeros((3, 2))

    assert head_change(HEADS, zero) == float("inf")
    assert head_change([zero, zero], zero) == 0
