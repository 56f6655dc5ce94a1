from dataclasses import replace

import pytest
import torch
from torch import nn

from fedapp.algorithm import LocalTask
from fedapp.data.samples import Samples
from fedapp.models import Classifier, state_of
from fedapp.prototypes import Bank
from fedapp.pseudo_labels import Thresholds
from fedapp.pseudo_training import find_pseudo, with_pseudo
from fedapp.terms import Term

BANK = Bank(torch.eye(2), torch.tensor([True, True]))
LABELLED = Samples(torch.tensor([[1.0, 0.1], [0.1, 1]]), torch.tensor([0, 1]))
HIDDEN = Samples(
    torch.tensor([[2.0, 0.1], [0.3, 3], [1, 0.9], [0, 1], [5, 0.2]]),
    torch.tensor([0, 1, 1, 1, 0]),
)
"""The third is on the other side of the middle; all others are near their class."""

OFF = Term("separation", 0.0, lambda features, labels: features.sum() * 0)


def task(**changes) -> LocalTask:
    model = Classifier(nn.Identity(), 2, 2)
    made = LocalTask(
        model=model,
        initial=state_of(model),
        received={},
        labelled=LABELLED,
        unlabelled=HIDDEN,
        classes=2,
        seed=0,
        client=0,
        lr=0.1,
        epochs=1,
        batch_size=1,
        scalars={"threshold": -1.0, "pseudo-weight": 0.5},
    )
    return replace(made, **changes)


def find(rule, *, given=None, fixed=0.05, before=None, bank=BANK):
    return find_pseudo(
        given or task(), bank, rule=rule, quantile=1.0, fixed=fixed, before=before
    )


def test_accept_all_with_right_prototypes_is_the_oracle_on_separable_data():
    clear = Samples(HIDDEN.images[[0, 1, 3, 4]], HIDDEN.labels[[0, 1, 3, 4]])
    given = task(unlabelled=clear)
    every, oracle = find("all", given=given), find("oracle", given=given)
    assert torch.equal(every.samples.labels, oracle.samples.labels)
    assert torch.equal(every.samples.images, oracle.samples.images)
    assert every.right == oracle.right == 4


def test_a_wrong_label_is_counted_as_accepted_and_not_as_right():
    found = find("all")
    assert found.metrics(diagnostics=True) == {
        "unlabelled": 5,
        "accepted": 5,
        "accepted-right": 4,
    }
    assert found.samples.labels.tolist() == [0, 1, 0, 1, 0]
    assert find("oracle").right == 5


def test_a_fixed_threshold_leaves_out_what_is_far():
    # 1 - cos of (1, .9) to an axis is .26; the others are below .006.
    assert len(find("fixed", fixed=0.05).samples) == 4
    assert len(find("fixed", fixed=0.3).samples) == 5
    assert len(find("fixed", fixed=0.0).samples) == 0


def test_the_automatic_threshold_is_of_labelled_samples():
    found = find("auto")
    own = 1 - 1 / (1.01**0.5)
    assert found.own.client == pytest.approx(own, abs=1e-6)
    # (2, .1), (0, 1) and (5, .2) are nearer than (1, .1); (.3, 3) is as near.
    assert {0, 3, 4} <= {
        row
        for row in range(5)
        if (HIDDEN.images[row] == found.samples.images).all(1).any()
    }
    assert found.right == len(found.samples) < 5
    assert found.metrics(diagnostics=False)["threshold"] == found.own.client


def test_old_thresholds_move_slowly_and_stay_without_new_ones():
    old = Thresholds.same(0.5, 2)
    fresh = find("auto").own.client
    moved = find("auto", before=old).own
    assert moved.client == pytest.approx(0.9 * 0.5 + 0.1 * fresh)
    nowhere = task(labelled=Samples(LABELLED.images, 1 - LABELLED.labels))
    assert find("auto", given=nowhere, before=old).own == old


def test_a_client_without_thresholds_takes_the_servers():
    nowhere = task(labelled=Samples(LABELLED.images, 1 - LABELLED.labels))
    nothing = find("auto", given=nowhere)
    assert (len(nothing.samples), nothing.own) == (0, None)
    assert "threshold" not in nothing.metrics(diagnostics=True)
    told = replace(nowhere, scalars={"threshold": 0.05, "pseudo-weight": 1.0})
    assert len(find("auto", given=told).samples) == 4


def test_only_known_classes_are_proposed():
    one = Bank(torch.eye(2), torch.tensor([True, False]))
    assert find("all", bank=one).samples.labels.tolist() == [0] * 5
    assert len(find("all", bank=Bank.empty(2, 2)).samples) == 0


def test_accepted_samples_add_their_weighted_loss():
    given = task(model=Classifier(nn.Identity(), 2, 2))
    apart = Term("separation", 2.0, lambda features, labels: features.sum())
    pseudo = find("fixed", given=given, fixed=0.05)
    # One batch of labelled samples: all accepted ones come with it.
    penalty = with_pseudo(
        lambda *_: torch.tensor(10.0), replace(given, batch_size=2), pseudo, apart
    )
    rows = pseudo.samples.images
    entropy = given.loss(given.model.head(rows), pseudo.samples.labels)
    expected = 0.5 * (entropy + 2 * rows.sum()) + 10
    found = penalty(LABELLED.images, LABELLED.images, LABELLED.labels)
    torch.testing.assert_close(found, expected)


def test_an_epoch_passes_once_over_the_accepted():
    given = task()
    seen: list[list[float]] = []

    def note(features, labels):
        seen.extend(features.tolist())
        return features.sum() * 0

    penalty = with_pseudo(None, given, find("fixed"), Term("see", 1.0, note))
    for _ in range(2):
        penalty(LABELLED.images, LABELLED.images, LABELLED.labels)
    assert sorted(seen) == sorted(find("fixed").samples.images.tolist())


@pytest.mark.parametrize(
    ("scalars", "fixed"),
    [
        ({"pseudo-weight": 0.0, "threshold": -1.0}, 0.05),
        ({"pseudo-weight": 1.0, "threshold": -1.0}, 0.0),
    ],
)
def test_without_weight_or_samples_the_penalty_is_what_it_was(scalars, fixed):
    given = task(scalars=scalars)
    assert with_pseudo(None, given, find("fixed", fixed=fixed), OFF) is None


def test_a_single_sample_is_left_out_under_batch_norm():
    given = task(unlabelled=Samples(HIDDEN.images[:1], HIDDEN.labels[:1]))
    pseudo = find("all", given=given)
    assert with_pseudo(None, given, pseudo, OFF) is not None
    normed = Classifier(nn.BatchNorm1d(2), 2, 2)
    assert with_pseudo(None, replace(given, model=normed), pseudo, OFF) is None
