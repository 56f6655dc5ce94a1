"""A whole refresh: exact below the threshold, by a sample above it."""

import numpy as np
import pytest
from planted import match, planted, store

from fedapp.hdc import blocks, finding, many
from fedapp.hdc.described import from_heads
from fedapp.hdc.grouping import choose_groups, memberships
from fedapp.hdc.heads import descriptor, gram, principal_directions
from fedapp.hdc.refresh import refresh
from fedapp.hdc.refresh_state import groups_of, snapshot_of, state_of_refresh
from fedapp.hdc.stability import Gate, Thresholds, compare, head_change, snapshot

THRESHOLDS = Thresholds(
    min_silhouette=0.01,
    min_ari=0.8,
    max_change=0.2,
    min_head_change=0.0,
    stable_refreshes=2,
    latch=True,
)


def refreshed(heads, clients=None, before=None):
    """Return a refresh; ``before`` is the one before it."""
    known = store(heads, clients)
    initial = np.full(heads.shape[1:], 0.1)
    return refresh(
        known.clients,
        from_heads(known, initial, energy=0.8, rank=0),
        before=before.snapshot if before else None,
        previous=before.groups.lasting() if before else {},
        next_id=before.next_id if before else 0,
        gate=before.gate if before else Gate(),
        max_groups=6,
        temperature=0.1,
        thresholds=THRESHOLDS,
        seed=7,
    )


@pytest.fixture
def _small(monkeypatch):
    """Above 100 clients a sample of 100 is what counts."""
    monkeypatch.setattr(many, "EXACT", 100)
    monkeypatch.setattr(finding, "EXACT", 100)


def test_below_the_threshold_every_bit_is_that_of_all_pairs():
    heads, _ = planted(60, noise=1.2)
    heads[13] = 0
    heads = heads.astype(np.float32)
    found = refreshed(heads)

    subspace = principal_directions(gram(heads), energy=0.8, rank=0)
    kept = [k for k in range(60) if k != 13]
    rows = np.stack([descriptor(heads[k], subspace.directions) for k in kept])
    exact = choose_groups(
        kept, rows, max_groups=6, min_silhouette=0.01, seed=7, previous={}
    )
    soft = np.zeros((60, len(exact.centroids)))
    soft[kept] = memberships(rows, exact.centroids, temperature=0.1)
    assert found.method == "exact"
    np.testing.assert_array_equal(found.subspace.directions, subspace.directions)
    np.testing.assert_array_equal(found.groups.labels[kept], exact.labels)
    assert found.groups.labels[13] == -1
    np.testing.assert_array_equal(found.groups.weights, soft)
    assert found.silhouettes == exact.silhouettes
    wanted = snapshot(kept, exact.labels, rows)
    np.testing.assert_array_equal(found.snapshot.similarity, wanted.similarity)
    assert found.snapshot.sampled.tolist() == kept
    assert found.head_change == head_change(heads, np.full(heads.shape[1:], 0.1))


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(
    ("clients", "dense", "method"),
    [(100, 0, "exact"), (101, 2**22, "sampled"), (101, 0, "projected")],
)
def test_the_number_of_clients_decides_and_is_told(monkeypatch, clients, dense, method):
    monkeypatch.setattr(many, "DENSE", dense)
    heads, labels = planted(clients, shape=(6, 60))
    found = refreshed(heads)

    assert found.method == method
    assert match(found.groups.labels, labels) == 1
    assert f"4 groups of {clients} clients, {method}" in found.in_words()
    assert ("of 100 clients, k-means by mini-batches" in found.in_words()) == (
        method != "exact"
    )
    assert ("projections to 128" in found.in_words()) == (method == "projected")


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("clients", [80, 240])
def test_the_order_in_which_clients_are_given_changes_no_bit(clients):
    heads, _ = planted(clients, noise=1.0)
    names = np.arange(clients) * 2 + 5
    order = np.random.default_rng(3).permutation(clients)
    straight = state_of_refresh(refreshed(heads, names))
    mixed = state_of_refresh(refreshed(heads[order], names[order]))

    for part, tree in straight.items():
        for name, leaf in tree.items():
            assert leaf.equal(mixed[part][name]), (part, name)


@pytest.mark.usefixtures("_small")
def test_only_the_sample_is_compared_with_the_refresh_before():
    heads, _ = planted(240)
    first = refreshed(heads)
    # What others do does not tell; what the sample does, tells.
    others = np.setdiff1d(np.arange(240), first.snapshot.sampled)
    moved = heads.copy()
    moved[others] += 0.2 * np.random.default_rng(1).standard_normal((140, 5, 8))
    second = refreshed(heads, before=first)
    third = refreshed(moved, before=second)

    assert len(first.snapshot.sampled) == 100
    assert first.snapshot.similarity.shape == (100, 100)
    assert (second.ari, second.change) == (1.0, pytest.approx(0, abs=1e-12))
    # The directions moved a little; descriptors of the sample otherwise did not.
    assert 0 < third.change < 0.02
    assert third.gate.counter == 2


@pytest.mark.usefixtures("_small")
def test_clients_sampled_both_times_are_compared():
    heads, _ = planted(260)
    first = refreshed(heads[:240])
    second = refreshed(np.delete(heads, [1, 2, 3], axis=0), before=first)

    common = np.intersect1d(first.snapshot.sampled, second.snapshot.sampled)
    assert 80 < len(common) < 100
    places = [np.searchsorted(s.snapshot.sampled, common) for s in (first, second)]
    old, new = (
        s.snapshot.similarity[np.ix_(at, at)]
        for s, at in zip((first, second), places, strict=True)
    )
    expected = np.linalg.norm(new - old) / np.linalg.norm(old)
    assert compare(second.snapshot, first.snapshot)[1] == pytest.approx(expected)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("clients", [80, 240])
def test_a_refresh_comes_back_from_state(clients):
    found = refreshed(planted(clients)[0])
    state = state_of_refresh(found)

    groups, snap = groups_of(state), snapshot_of(state)
    assert groups.lasting() == found.groups.lasting()
    for name in ("clients", "labels", "sampled", "similarity"):
        np.testing.assert_array_equal(
            getattr(snap, name), getattr(found.snapshot, name)
        )
    assert ("sampled" in state["snapshot"]) == (clients > 100)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(("clients", "listed"), [(80, 80), (240, 100)])
def test_memberships_of_all_or_of_the_sample_are_written_down(clients, listed):
    heads, _ = planted(clients)
    heads[3] = 0
    found = refreshed(heads)

    # Without a descriptor a client is in no sample.
    assert len(found.listed()) == listed - (
        clients > 100 and 3 in refreshed(planted(clients)[0]).snapshot.sampled
    )
    assert (3 in found.listed()) == (clients == 80)


def test_memory_holds_neither_all_pairs_nor_all_descriptors(monkeypatch):
    """The state and the blocks of 3,000 clients have the size they have for 1,001."""
    monkeypatch.setattr(many, "DENSE", 0)
    largest = 0
    step = blocks.Descriptors.blocks

    def watched(self):
        nonlocal largest
        for places, rows in step(self):
            largest = max(largest, rows.size)
            yield places, rows

    monkeypatch.setattr(blocks.Descriptors, "blocks", watched)
    found = refreshed(planted(3000, shape=(6, 40))[0])
    assert found.method == "projected"
    assert found.snapshot.similarity.shape == (1000, 1000)
    assert largest <= 256 * 6 * 40
