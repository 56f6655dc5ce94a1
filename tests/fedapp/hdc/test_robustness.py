"""One client cannot do more to the others than its examples weigh.

The statement, for a client that joins a group of others without changing who else is
together with whom: row k of the mixing matrix moves in total variation by at most

    mix * (TV(p_k, p'_k) + p'_kg * n_a / N_g),

where g is the group that it joined and N_g that group's examples, its own included.
"""

import functools

import numpy as np
import pytest
from planted import store

from fedapp.hdc import clipping
from fedapp.hdc.clipping import LIMIT, factors, norm, scaled
from fedapp.hdc.described import from_heads
from fedapp.hdc.grouping import NothingToGroup
from fedapp.hdc.mixture import mixing_matrix
from fedapp.hdc.refresh import refresh
from fedapp.hdc.stability import Gate, Thresholds

EACH, GROUPS, CLASSES, FEATURES = 5, 4, 10, 16
COUNTS = np.array([100, 50, 200, 150, 100] * GROUPS)
THRESHOLDS = Thresholds(
    min_silhouette=0.05,
    min_ari=0.8,
    max_change=0.2,
    min_head_change=0.0,
    stable_refreshes=2,
    latch=True,
)


def planted(noise=0.4, seed=0):
    """Return heads in four groups, five clients each, alike in their first class."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((GROUPS, CLASSES, FEATURES))
    centres[:, 0] = centres[0, 0]
    shape = (GROUPS, EACH, CLASSES, FEATURES)
    heads = centres[:, None] + noise * rng.standard_normal(shape)
    return list(heads.reshape(-1, CLASSES, FEATURES))


HEADS = planted()


@functools.cache
def untouched():
    """Return the groups of the planted heads alone."""
    return grouped(HEADS)


def grouped(heads, clients=None, previous=None, before=None, **changes):
    clients = list(range(len(heads))) if clients is None else clients
    initial = np.full(heads[0].shape, 0.1)
    return refresh(
        clients,
        from_heads(store(np.stack(heads), clients), initial, energy=0.8, rank=0),
        before=before,
        previous=previous or {},
        next_id=GROUPS if previous else 0,
        gate=Gate(),
        seed=1,
        thresholds=THRESHOLDS,
        **{"max_groups": 8, "temperature": 0.1} | changes,
    )


def rows(found, counts, mix=1.0):
    groups = found.groups
    return mixing_matrix(groups.weights, groups.labels, counts, mix=mix)


def joined(adversary, examples, mix=1.0):
    """Return groups with and without one more client, and how far each row moved."""
    alone, crowd = untouched(), grouped([*HEADS, adversary])
    before = np.pad(rows(alone, COUNTS, mix), ((0, 0), (0, 1)))
    after = rows(crowd, np.append(COUNTS, examples), mix)[:-1]
    return alone.groups, crowd.groups, np.abs(after - before).sum(axis=1) / 2


def together(labels):
    return (labels[:, None] == labels).tolist()


def one_direction():
    """Return the worst head for the others: large where their groups are alike."""
    return np.outer(np.eye(CLASSES)[0], np.random.default_rng(7).standard_normal(16))


def test_planted_groups_are_found():
    assert untouched().groups.labels.tolist() == sorted([0, 1, 2, 3] * EACH)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e12])
@pytest.mark.parametrize("kind", ["copied", "its own", "one direction"])
def test_one_client_moves_mixtures_by_its_share_of_a_group(kind, size):
    own = np.random.default_rng(9).standard_normal((CLASSES, FEATURES))
    adversary = {"copied": HEADS[2], "its own": own, "one direction": one_direction()}
    alone, crowd, moved = joined(size * adversary[kind], examples=150)

    assert together(crowd.labels[:-1]) == together(alone.labels)
    group = crowd.labels[-1]
    inside = np.append(COUNTS, 150)[crowd.labels == group].sum()
    share = 150 / inside if kind == "copied" else 150 / (COUNTS.sum() + 150)
    # The rest is the memberships', which move by less than 1e-3 here.
    assert moved.max() <= share + 1e-3


@pytest.mark.parametrize("mix", [1.0, 0.6])
def test_a_copied_head_takes_its_share_of_the_group_not_of_the_federation(mix):
    _, crowd, moved = joined(HEADS[2], examples=150, mix=mix)

    assert crowd.labels[-1] == crowd.labels[2]
    first = COUNTS[:EACH].sum()
    expected = mix * 150 / (first + 150)
    assert moved[:EACH] == pytest.approx([expected] * EACH, rel=1e-3)
    assert expected > 2 * mix * 150 / (COUNTS.sum() + 150)
    assert moved[EACH:].max() < 1e-3


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_rows_move_by_no_more_than_memberships_and_share_say(seed, temperature):
    """The statement above, where memberships are soft and groups are not far apart."""
    rng, mix = np.random.default_rng(seed), 0.8
    adversary = HEADS[seed] + rng.standard_normal((CLASSES, FEATURES))
    alone = grouped(HEADS, temperature=temperature)
    crowd = grouped([*HEADS, adversary], temperature=temperature)
    assert together(crowd.groups.labels[:-1]) == together(alone.groups.labels)
    group = crowd.groups.labels[-1]
    assert (crowd.groups.labels == group).sum() > 1
    counts = np.append(COUNTS, 400)
    before = np.pad(rows(alone, COUNTS, mix), ((0, 0), (0, 1)))
    after = rows(crowd, counts, mix)[:-1]
    soft, softer = alone.groups.weights, crowd.groups.weights[:-1]

    moved = np.abs(after - before).sum(axis=1) / 2
    share = 400 / counts[crowd.groups.labels == group].sum()
    bound = mix * (np.abs(softer - soft).sum(axis=1) / 2 + softer[:, group] * share)
    assert (moved <= bound + 1e-12).all()
    assert moved.max() > 0.5 * bound.max()


def test_without_the_limit_a_huge_head_would_mix_up_the_others(monkeypatch):
    """What the limit is for: no direction of the others would be left."""
    huge, share = 1e6 * one_direction(), 150 / (COUNTS.sum() + 150)
    assert grouped([*HEADS, huge]).subspace.rank == 5
    assert joined(huge, examples=150)[2].max() < share
    monkeypatch.setattr(clipping, "LIMIT", float("inf"))

    assert grouped([*HEADS, huge]).subspace.rank == 1
    assert joined(huge, examples=150)[2].max() > 10 * share


def test_ordinary_heads_are_left_alone_to_the_bit():
    heads = [*HEADS, LIMIT * 0.9 * HEADS[0], 1e-3 * HEADS[1]]
    by = factors(norm(head) for head in heads)

    assert by == [1.0] * len(heads)
    assert all(a is b for a, b in zip(scaled(heads, by), heads, strict=True))


def test_a_large_head_counts_as_one_at_the_limit():
    heads = [*HEADS, 1e5 * HEADS[0]]
    *_, last = scaled(heads, factors(norm(head) for head in heads))

    assert norm(last) == pytest.approx(LIMIT * np.median([norm(h) for h in heads]))
    np.testing.assert_allclose(last / norm(last), HEADS[0] / norm(HEADS[0]))


def test_beyond_the_limit_size_changes_nothing():
    found = [grouped([*HEADS, size * one_direction()]) for size in (1e3, 1e15)]

    np.testing.assert_array_equal(*(one.groups.labels for one in found))
    np.testing.assert_allclose(*(one.groups.weights for one in found), atol=1e-9)


def test_zero_heads_make_no_other_head_large():
    zero = 0 * HEADS[0]

    assert factors(norm(h) for h in [HEADS[0], zero, zero, zero]) == [1.0] * 4


def test_a_zero_head_changes_nothing_and_is_in_no_group():
    alone, crowd, moved = joined(0 * HEADS[0], examples=10_000)

    assert crowd.labels.tolist() == [*alone.labels, -1]
    assert moved.max() == 0
    matrix = rows(grouped([*HEADS, 0 * HEADS[0]]), np.append(COUNTS, 10_000))
    assert matrix[-1] == pytest.approx(np.append(COUNTS / COUNTS.sum(), 0))


def test_only_zero_heads_are_nothing_to_group():
    with pytest.raises(NothingToGroup, match="no client has a head"):
        grouped([0 * HEADS[0]] * 5)


def test_identical_heads_are_one_group_and_the_population():
    found = grouped([HEADS[0]] * 6)

    assert found.groups.labels.tolist() == [0] * 6
    expected = np.tile(COUNTS[:6] / COUNTS[:6].sum(), (6, 1))
    np.testing.assert_allclose(rows(found, COUNTS[:6]), expected)


def test_one_group_is_the_population():
    found = grouped(HEADS, max_groups=1)

    expected = np.tile(COUNTS / COUNTS.sum(), (len(HEADS), 1))
    np.testing.assert_allclose(rows(found, COUNTS), expected)


def test_more_groups_than_clients_are_not_tried():
    found = grouped(HEADS[::EACH], max_groups=50)

    assert max(found.silhouettes) == GROUPS - 1


def test_a_client_that_leaves_changes_no_other_group():
    first = untouched()
    stay = [k for k in range(len(HEADS)) if k != 2]
    found = grouped(
        [HEADS[k] for k in stay],
        stay,
        previous=first.groups.lasting(),
        before=first.snapshot,
    )

    before = first.groups.lasting()
    assert found.groups.lasting() == {k: before[k] for k in stay}
    assert found.ari == 1.0
    assert found.change < 0.05


def test_a_whole_group_that_leaves_takes_its_id_along():
    first = untouched()
    stay = list(range(EACH, len(HEADS)))
    found = grouped(
        [HEADS[k] for k in stay],
        stay,
        previous=first.groups.lasting(),
        before=first.snapshot,
    )

    assert sorted(set(found.groups.lasting().values())) == [1, 2, 3]
    assert found.next_id == GROUPS
