import numpy as np
import pytest

from fedapp.data.labelled import split_labelled

LABELS = np.repeat([0, 1, 2, 4], [40, 15, 3, 1])


@pytest.mark.parametrize(
    ("fraction", "counts"),
    [(0.1, [4, 2, 1, 1]), (0.5, [20, 8, 2, 1]), (0.01, [1, 1, 1, 1])],
)
def test_every_class_keeps_its_share_and_at_least_one_label(fraction, counts):
    shown, _ = split_labelled(LABELS, fraction, seed=0, client=0)
    # Halves are rounded up: 7.5 to 8, 1.5 to 2.
    assert np.bincount(LABELS[shown])[[0, 1, 2, 4]].tolist() == counts


def test_the_two_parts_are_all_samples_once():
    shown, hidden = split_labelled(LABELS, 0.3, seed=0, client=0)
    assert sorted([*shown, *hidden]) == list(range(len(LABELS)))
    assert shown.tolist() == sorted(shown)


def test_the_draw_depends_on_seed_and_client():
    def drawn(**key):
        return split_labelled(LABELS, 0.3, **({"seed": 1, "client": 2} | key))[0]

    assert drawn().tolist() == drawn().tolist()
    assert drawn().tolist() != drawn(seed=2).tolist()
    assert drawn().tolist() != drawn(client=3).tolist()


def test_all_labels_leave_nothing_hidden():
    _, hidden = split_labelled(LABELS, 1.0, seed=0, client=0)
    assert len(hidden) == 0
