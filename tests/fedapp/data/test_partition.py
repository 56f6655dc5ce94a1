"""Partitions: acceptance tests 24 and the minimum."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedapp.data.partition import partition, split
from fedapp.data.rule import PARTITIONS
from fedapp.data.shift import allowed_classes, parse_shift

DIGITS = load_digits().target.astype(np.int64)
CIFAR = np.repeat(np.arange(10), 600)
CIFAR_TEST = np.tile(np.arange(600) >= 500, 10)
DEALT = [kind for kind in PARTITIONS if kind != "natural"]
SHOTS = "n-way-k-shot"
WHOLE = [kind for kind in DEALT if kind != SHOTS]


def make(kind, labels=DIGITS, **changes):
    settings = {
        "clients": 20,
        "alpha": 0.3,
        "classes_per_client": 2,
        "ways_spread": 0,
        "shots": 12,
        "samples_per_client": 0,
        "test_fraction": 0.25,
        "owners": None,
        "official_test": None,
        "seed": 42,
    }
    return partition(kind, labels, **(settings | changes))


def everything(parts):
    return np.concatenate([*parts.train, *parts.test])


def same_classes(parts, labels, client):
    return set(labels[parts.train[client]]) == set(labels[parts.test[client]])


@pytest.mark.parametrize("official", [False, True])
@pytest.mark.parametrize("kind", WHOLE)
def test_parts_are_disjoint_and_cover_the_data_set(kind, official):
    parts = make(kind, CIFAR, official_test=CIFAR_TEST if official else None)
    assert sorted(everything(parts)) == list(range(6000))


@pytest.mark.parametrize("kind", PARTITIONS)
def test_a_seed_repeats_and_another_differs(kind):
    owners = np.arange(1797) % 40
    first, again = make(kind, owners=owners), make(kind, owners=owners)
    other = make(kind, owners=owners, seed=43)
    for client in range(20):
        assert first.train[client].tolist() == again.train[client].tolist()
        assert first.test[client].tolist() == again.test[client].tolist()
    assert any(
        a.tolist() != b.tolist() for a, b in zip(first.train, other.train, strict=True)
    )


@pytest.mark.parametrize("official", [False, True])
@pytest.mark.parametrize("kind", DEALT)
def test_train_and_test_hold_the_same_classes(kind, official):
    parts = make(kind, CIFAR, official_test=CIFAR_TEST if official else None)
    assert all(same_classes(parts, CIFAR, client) for client in range(20))


@pytest.mark.parametrize("kind", DEALT)
def test_train_and_test_follow_one_distribution(kind):
    parts = make(kind, CIFAR)
    for train, test in zip(parts.train, parts.test, strict=True):
        in_train = np.bincount(CIFAR[train], minlength=10) / len(train)
        in_test = np.bincount(CIFAR[test], minlength=10) / len(test)
        # A count is off by less than a sample, or by one that a rare class is due.
        assert np.abs(in_train - in_test).max() <= 2 / len(test) + 2 / len(train)


@pytest.mark.parametrize("kind", ["iid", "label-proportions"])
def test_equal_partitions_have_equal_sizes(kind):
    parts = make(kind)
    sizes = [len(a) + len(b) for a, b in zip(parts.train, parts.test, strict=True)]
    assert sorted(sizes) == [89] * 3 + [90] * 17
    assert {len(test) for test in parts.test} == {22}


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("official", [False, True])
def test_samples_per_client_counts_training_samples(kind, official):
    parts = make(
        kind,
        CIFAR,
        alpha=5.0,
        samples_per_client=99,
        official_test=CIFAR_TEST if official else None,
    )
    assert [len(train) for train in parts.train] == [99] * 20
    assert [len(test) for test in parts.test] == [33] * 20
    assert len(set(everything(parts))) == 20 * 132
    assert not parts.notes


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.25, 1 / 3, 0.5])
@pytest.mark.parametrize("n", [45, 46, 47, 50])
def test_test_samples_are_n_f_over_one_minus_f(fraction, n):
    parts = make("iid", clients=15, samples_per_client=n, test_fraction=fraction)
    expected = round(n * fraction / (1 - fraction))
    assert {len(train) for train in parts.train} == {n}
    assert {len(test) for test in parts.test} == {expected}


def test_official_parts_come_from_their_own_split():
    parts = make("label-proportions", CIFAR, official_test=CIFAR_TEST)
    assert not any(CIFAR_TEST[train].any() for train in parts.train)
    assert all(CIFAR_TEST[test].all() for test in parts.test)


def test_label_subset_divides_a_class_equally_among_four_holders():
    parts = make("label-subset", CIFAR)
    for client in range(20):
        assert np.unique(CIFAR[parts.train[client]]).size == 2
        counts = np.bincount(CIFAR[np.r_[parts.train[client], parts.test[client]]])
        assert set(counts.tolist()) <= {0, 150}


@pytest.mark.parametrize("fraction", [0.25, 0.3, 0.5])
def test_a_client_has_as_many_shots_of_each_of_its_ways(fraction):
    parts = make(
        SHOTS,
        CIFAR,
        classes_per_client=4,
        ways_spread=2,
        shots=20,
        test_fraction=fraction,
    )
    tests = round(20 / (1 - fraction)) - 20
    ways = []
    for train, test in zip(parts.train, parts.test, strict=True):
        assert {0, 20} == set(np.bincount(CIFAR[train], minlength=11).tolist())
        assert {0, tests} == set(np.bincount(CIFAR[test], minlength=11).tolist())
        ways.append(np.unique(CIFAR[train]).size)
    assert set(ways) == {2, 3, 4, 5, 6}
    assert len(set(everything(parts))) == sum(ways) * (20 + tests)
    assert not parts.notes


def test_each_number_of_ways_and_each_class_is_as_likely():
    parts = make(
        SHOTS,
        np.repeat(np.arange(10), 20_000),
        clients=2000,
        classes_per_client=4,
        ways_spread=2,
        shots=6,
        test_fraction=0.3,
    )
    labels = [np.unique(rows // 20_000) for rows in parts.train]
    by_ways = np.bincount([len(own) for own in labels])[2:]
    assert np.abs(by_ways - 400).max() < 4 * np.sqrt(2000 * 0.2 * 0.8)
    by_class = np.bincount(np.concatenate(labels))
    assert np.abs(by_class - 800).max() < 4 * np.sqrt(2000 * 0.4 * 0.6)


def test_shots_of_an_official_split_are_training_samples():
    parts = make(SHOTS, CIFAR, shots=15, official_test=CIFAR_TEST)
    for train in parts.train:
        assert {0, 15} == set(np.bincount(CIFAR[train], minlength=11).tolist())


def test_a_class_too_small_for_its_clients_is_shared_equally_and_named():
    parts = make(SHOTS, CIFAR, shots=300, test_fraction=0.5)
    held = np.zeros(10, dtype=int)
    for train, test in zip(parts.train, parts.test, strict=True):
        held[np.unique(CIFAR[np.r_[train, test]])] += 1
    short = [label for label in range(10) if held[label] * 600 > 600]
    assert [int(note.split()[1]) for note in parts.notes] == short
    for train, test in zip(parts.train, parts.test, strict=True):
        for label, count in enumerate(np.bincount(CIFAR[np.r_[train, test]])):
            assert count in (0, 600 // held[label], -(-600 // held[label]))


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"samples_per_client": 50}, "samples-per-client = 50 does not go with"),
        ({"shots": 4}, "data.shots = 4 .* makes 8 training and 2 test"),
        ({"classes_per_client": 11}, "means 11 classes at least"),
        ({"allowed": [{0, 1}] * 20}, "label-window"),
    ],
)
def test_ways_and_shots_that_make_no_sense_are_refused(changes, wanted):
    with pytest.raises(ValueError, match=wanted):
        make(SHOTS, CIFAR, **changes)


def test_a_client_has_the_proportions_that_were_drawn():
    parts = make("label-proportions", CIFAR, alpha=1.0, samples_per_client=90)
    rng = np.random.default_rng(42)
    drawn = rng.dirichlet(np.ones(10), size=20)
    for client in range(20):
        rows = np.r_[parts.train[client], parts.test[client]]
        counts = np.bincount(CIFAR[rows], minlength=10)
        # Within rounding, and the few samples traded for class sets to agree.
        assert np.abs(counts - 120 * drawn[client]).max() <= 4


def test_dirichlet_sizes_differ_and_label_proportion_sizes_do_not():
    sizes = [len(train) for train in make("dirichlet", CIFAR).train]
    assert max(sizes) > 2 * min(sizes)


@pytest.mark.parametrize("alpha", [0.001, 0.05])
@pytest.mark.parametrize("kind", ["dirichlet", "label-proportions"])
def test_small_alpha_on_small_data_reaches_the_minimum(kind, alpha):
    parts = make(kind, clients=50, alpha=alpha)
    assert min(len(train) for train in parts.train) >= 10
    assert min(len(test) for test in parts.test) >= 5
    assert sorted(everything(parts)) == list(range(1797))
    assert bool(parts.notes) == (kind == "dirichlet")


@pytest.mark.parametrize("kind", WHOLE)
def test_every_client_gets_its_minimum_when_there_is_just_enough(kind):
    parts = make(kind, clients=119, alpha=0.5)
    assert min(len(train) for train in parts.train) >= 10
    assert min(len(test) for test in parts.test) >= 5
    assert len(set(everything(parts))) == 1797


def test_a_small_official_test_split_reaches_the_minimum_too():
    official = np.arange(1797) % 6 == 0
    parts = make("dirichlet", alpha=0.05, official_test=official)
    assert min(len(train) for train in parts.train) >= 10
    assert min(len(test) for test in parts.test) >= 5
    assert any("moved from client" in note for note in parts.notes)


def test_dirichlet_clients_below_the_size_asked_for_are_noted():
    parts = make("dirichlet", alpha=0.3, samples_per_client=60)
    short = [k for k in range(20) if len(parts.train[k]) < 60]
    assert short
    assert [note.split()[1] for note in parts.notes] == [str(k) for k in short]
    assert max(len(train) for train in parts.train) == 60


def test_natural_clients_are_owners_with_the_minimum():
    owners = np.repeat(np.arange(200), 9)[:1797]
    owners[:600] = np.arange(600) % 30
    parts = make("natural", owners=owners, clients=25)
    for train, test in zip(parts.train, parts.test, strict=True):
        (owner,) = set(owners[np.r_[train, test]])
        assert owner < 30
        assert len(train) + len(test) == (owners == owner).sum()
    drawn = {int(owners[train[0]]) for train in parts.train}
    assert len(drawn) == 25
    assert drawn != set(range(25))


def test_too_few_natural_clients_are_counted():
    with pytest.raises(ValueError, match=r"clients = 20, but only 12 natural"):
        make("natural", owners=np.arange(1797) % 12)


def test_natural_with_an_official_split_needs_owners_in_both():
    owners = np.arange(1797) % 40
    parts = make("natural", owners=owners, official_test=np.arange(1797) % 3 == 0)
    assert all((rows % 3 == 0).all() for rows in parts.test)
    with pytest.raises(ValueError, match=r"only 0 natural .*official-split = false"):
        make("natural", owners=owners, official_test=owners >= 30)


@pytest.mark.parametrize("kind", ["iid", "label-proportions", "dirichlet"])
@pytest.mark.parametrize("groups", ["2", "4", "5", "10"])
def test_a_window_limits_what_clients_see(kind, groups):
    shift = parse_shift("label-window", groups)
    allowed = allowed_classes(shift, clients=20, classes=10)
    parts = make(kind, allowed=allowed)
    for client in range(20):
        rows = np.r_[parts.train[client], parts.test[client]]
        assert set(DIGITS[rows]) <= allowed[client]
    assert len(set(everything(parts))) == len(everything(parts)) > 1700
    if kind != "dirichlet":
        assert np.ptp([len(train) for train in parts.train]) <= 1


def test_uneven_windows_leave_samples_unused_and_say_so():
    # Clusters 0 and 1 have 2 of 3 clients each but together half of the classes.
    allowed = [{0, 1, 2}, {2, 3, 4}, {5, 6, 7, 8, 9}] * 2
    parts = make("iid", CIFAR, clients=6, allowed=allowed)
    assert {
        len(train) + len(test)
        for train, test in zip(parts.train, parts.test, strict=True)
    } == {750}
    assert parts.notes == ["1500 samples unused, so that clients have equal sizes"]


@pytest.mark.parametrize("kind", ["label-subset", "natural"])
def test_a_window_needs_a_partition_that_can_honour_it(kind):
    with pytest.raises(ValueError, match=r"label-window.*use iid"):
        make(kind, allowed=[{0, 1}] * 20, owners=np.arange(1797) % 30)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients": 120}, "120 need 1800 samples .15 each.; the data set has 1797"),
        ({"samples_per_client": 100}, r"need 2660 samples .133 each.*fewer samples"),
        ({"samples_per_client": 9}, "9 training and 3 test samples; at least 10 and 5"),
        ({"clients": 0}, "data.clients >= 1"),
        ({"test_fraction": 1.0}, "data.test-fraction < 1"),
        ({"alpha": 0.0}, "data.alpha must be positive"),
        ({"official_test": np.arange(1797) < 90}, "need 100 official test samples"),
        ({"official_test": np.arange(1797) < 1700}, "need 200 official training"),
    ],
)
def test_settings_that_cannot_be_served_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make("iid", **changes)


def test_an_unknown_kind_names_the_known_ones():
    with pytest.raises(ValueError, match="'shards'; use one of iid, dirichlet"):
        make("shards")


def test_natural_without_owners_names_the_setting():
    with pytest.raises(ValueError, match=r"data\.client-column"):
        make("natural")


def test_one_clients_own_data_are_split_class_by_class():
    labels = np.repeat([0, 1, 3], [8, 40, 2])
    train, test = split(labels, test_fraction=0.25, rng=np.random.default_rng(0))
    assert np.bincount(labels[test]).tolist() == [2, 9, 0, 1]
    assert sorted([*train, *test]) == list(range(50))
