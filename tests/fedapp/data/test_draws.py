"""The draws behind the partition kinds."""

import datasets
import numpy as np
import pytest
from flwr_datasets.partitioner import DirichletPartitioner

from fedapp.data import draws


@pytest.mark.parametrize("alpha", [0.1, 3.0])
def test_a_dirichlet_draw_is_that_of_flwr_datasets(alpha):
    labels = np.random.default_rng(5).integers(0, 4, 500)
    theirs = DirichletPartitioner(6, "label", alpha, min_partition_size=0, seed=9)
    theirs.dataset = datasets.Dataset.from_dict({"label": labels})
    expected = [
        np.bincount(theirs.load_partition(k)["label"], minlength=4) for k in range(6)
    ]
    ours = draws.dirichlet(labels, clients=6, alpha=alpha, seed=9)
    assert ours.tolist() == np.stack(expected).tolist()


@pytest.mark.parametrize(
    ("classes", "width", "holders"),
    [(10, 2, 4), (10, 3, 6), (100, 20, 4), (100, 30, 6)],
)
@pytest.mark.parametrize("seed", range(5))
def test_every_class_has_the_same_number_of_holders(classes, width, holders, seed):
    rng = np.random.default_rng(seed)
    sets = draws.label_sets(np.arange(classes), clients=20, width=width, rng=rng)
    assert [len(own) for own in sets] == [width] * 20
    counts = np.bincount([c for own in sets for c in own], minlength=classes)
    assert counts.tolist() == [holders] * classes


@pytest.mark.parametrize("seed", range(30))
def test_a_conflict_at_the_end_of_the_row_is_exchanged_backwards(seed):
    # 3 classes dealt 2 at a time: conflicts are frequent, also for the last client.
    rng = np.random.default_rng(seed)
    sets = draws.label_sets(np.arange(3), clients=6, width=2, rng=rng)
    assert all(len(own) == 2 for own in sets)
    assert np.bincount([c for own in sets for c in own]).tolist() == [4, 4, 4]


def test_label_sets_are_not_a_cycle_of_one_order():
    rng = np.random.default_rng(1)
    sets = draws.label_sets(np.arange(10), clients=20, width=2, rng=rng)
    assert len({frozenset(own) for own in sets}) > 10


@pytest.mark.parametrize("width", [0, 11])
def test_more_classes_per_client_than_there_are_is_refused(width):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"data.classes-per-client"):
        draws.label_sets(np.arange(10), clients=20, width=width, rng=rng)


def test_classes_are_divided_equally_among_their_holders():
    labels = np.repeat([0, 1], [9, 7])
    holders = np.array([[True, False], [True, True], [False, True]])
    quota = draws.divide_among_holders(labels, holders)
    assert quota.tolist() == [[5, 0], [4, 4], [0, 3]]


def test_rows_are_grouped_by_owner_without_those_of_nobody():
    groups = draws.rows_by_owner(np.array([7, -1, 3, 7, 3, 3]))
    assert [rows.tolist() for rows in groups] == [[2, 4, 5], [0, 3]]


def test_a_natural_partition_prints_nothing(capfd):
    draws.rows_by_owner(np.arange(50))
    assert capfd.readouterr() == ("", "")
