"""Grouping by raw heads: what the projection is compared with."""

import numpy as np
import pytest
from planted import store

from fedapp.hdc import raw
from fedapp.hdc.heads import descriptor, gram, principal_directions
from fedapp.hdc.raw import raw_refresh
from fedapp.hdc.stability import agreement

HEADS = [
    np.array([[2, 0], [-1, 0], [-1, 0]], dtype=float),
    np.array([[2, 0.2], [-1, -0.2], [-1, 0]]),
    np.array([[0, -1], [0, 2], [0, -1]], dtype=float),
    np.array([[0.2, -1], [-0.2, 2], [0, -1]]),
]


def planted(groups=3, each=6, shape=(10, 8), noise=0.7, seed=0):
    """Return heads of ``groups`` kinds and the kind of each."""
    rng = np.random.default_rng(seed)
    kinds = rng.standard_normal((groups, *shape))
    truth = np.arange(groups * each) % groups
    return [kinds[g] + noise * rng.standard_normal(shape) for g in truth], truth


def regroup(heads, before=None, **changes):
    settings = {"max_groups": 8, "min_silhouette": 0.05, "seed": 7}
    known = store(np.stack(heads))
    return raw_refresh(known, before=before, **settings | changes)


def test_it_is_the_grouping_of_descriptors_of_full_rank():
    heads, _ = planted()
    directions = principal_directions(gram(heads), energy=1.0, rank=10).directions
    rows = np.stack([descriptor(head, directions) for head in heads])
    found = regroup(heads)
    np.testing.assert_allclose(found.snapshot.similarity, rows @ rows.T, atol=1e-12)


def test_planted_groups_are_found_and_numbered_by_their_first_client():
    heads, truth = planted()
    found = regroup(heads)
    assert found.groups == 3
    assert found.snapshot.labels.tolist() == truth.tolist()


def test_fewer_numbers_change_nothing(monkeypatch):
    heads, _ = planted(noise=1.5)
    short = regroup(heads)
    monkeypatch.setattr(raw, "_fewer_numbers", lambda heads, similarity: heads)
    long = regroup(heads)
    assert short.snapshot.labels.tolist() == long.snapshot.labels.tolist()
    assert short.silhouette == pytest.approx(long.silhouette, abs=1e-9)
    assert short.silhouette is not None


def test_the_toy_heads_fall_into_two_groups():
    found = regroup(HEADS)
    assert found.snapshot.labels.tolist() == [0, 0, 1, 1]
    assert found.ari is None


def test_two_refreshes_are_compared_on_common_clients():
    heads, _ = planted()
    before = regroup(heads[:12]).snapshot
    later, _ = planted(noise=2.5)
    found = regroup(later, before)
    expected = agreement(before.labels, found.snapshot.labels[:12])
    assert found.ari == pytest.approx(expected)
    assert found.ari < 1.0
    assert regroup(heads, before).ari == 1.0


def test_zero_heads_are_left_out_and_all_zero_is_none():
    heads = [*HEADS, np.zeros((3, 2))]
    assert regroup(heads).snapshot.clients.tolist() == [0, 1, 2, 3]
    assert regroup([np.zeros((3, 2))] * 4) is None
