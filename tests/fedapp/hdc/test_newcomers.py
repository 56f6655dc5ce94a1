"""Where a head stands among groups that were found without it."""

import numpy as np
import pytest
import torch
from planted import store

from fedapp.hdc import newcomers
from fedapp.hdc.described import from_heads
from fedapp.hdc.diagnostics import DIRECTIONS, ages, silhouettes, spectrum
from fedapp.hdc.refresh import Refresh, refresh
from fedapp.hdc.refresh_state import without
from fedapp.hdc.sample import sample_positions
from fedapp.hdc.stability import Gate, Thresholds

# The toy heads of the specification, 23.11.
HEADS = {
    0: [[2.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]],
    1: [[2.0, 0.2], [-1.0, -0.2], [-1.0, 0.0]],
    2: [[0.0, -1.0], [0.0, 2.0], [0.0, -1.0]],
    3: [[0.2, -1.0], [-0.2, 2.0], [0.0, -1.0]],
}


def found(heads=None, **changes) -> Refresh:
    values = {
        "before": None,
        "previous": {},
        "next_id": 0,
        "gate": Gate(),
        "max_groups": 8,
        "temperature": 0.5,
        "thresholds": Thresholds(0.05, 0.8, 0.2, 0.0, 2, True),
        "seed": 0,
    }
    known = np.array(list(HEADS.values()) if heads is None else heads)
    clients = list(range(len(known)))
    initial = np.full(known[0].shape, 0.1)
    return refresh(
        clients,
        from_heads(store(known), initial, energy=0.8, rank=0),
        **values | changes,
    )


def placed(head, *, temperature: float = 0.5) -> newcomers.Place:
    marks = newcomers.landmarks_of(newcomers.landmarks_state(found()))
    (place,) = newcomers.place(
        [(9, np.array(head))], marks, temperature=temperature
    ).values()
    return place


@pytest.mark.parametrize(
    ("client", "similarity", "weights"),
    [
        (0, (0.998348, 0.049752), (0.869573, 0.130427)),
        (1, (0.998348, -0.049752), (0.890533, 0.109467)),
        (2, (-0.049752, 0.998348), (0.109467, 0.890533)),
    ],
)
def test_the_head_of_a_member_stands_where_the_member_does(client, similarity, weights):
    place = placed(HEADS[client])
    assert place.similarity == pytest.approx(similarity, abs=1e-6)
    assert place.weights == pytest.approx(weights, abs=1e-6)


def test_a_head_counts_by_its_direction_only():
    head = np.array([[1.0, -0.5], [0.25, 2.0], [-1.5, -1.25]])
    first, second = placed(head), placed(7.5 * head)
    np.testing.assert_allclose(second.similarity, first.similarity, atol=1e-12)
    np.testing.assert_allclose(second.weights, first.weights, atol=1e-12)


def test_a_head_between_the_groups_belongs_to_both():
    # Both centroids are means of two of these unit vectors, with the same length.
    units = [np.array(head) / np.linalg.norm(head) for head in HEADS.values()]
    assert placed(sum(units)).weights == pytest.approx([0.5, 0.5])


def test_a_zero_head_has_no_place():
    place = placed(np.zeros((3, 2)))
    assert place.weights.tolist() == [0.0, 0.0]
    assert place.similarity.tolist() == [0.0, 0.0]


def test_state_holds_the_memberships_and_forgets_them_alone():
    places = {7: placed(HEADS[0]), 4: placed(HEADS[2])}
    state = {"gate": {}, **newcomers.places_state(places)}
    back = newcomers.weights_of(state)
    assert list(back) == [7, 4]
    for client, place in places.items():
        assert back[client].tolist() == place.weights.tolist()
    assert without(state, newcomers.PHASE) == {"gate": {}}
    assert newcomers.places_state({}) == {}


def test_lines_have_one_row_for_each_client_and_group():
    place = placed(HEADS[0])
    lines = list(newcomers.lines({7: place}, (3, 12), seed=0))
    assert [(line["client"], line["group"]) for line in lines] == [(7, 3), (7, 12)]
    assert [line["membership"] for line in lines] == place.weights.tolist()
    assert [line["similarity"] for line in lines] == place.similarity.tolist()


def test_of_very_many_newcomers_a_sample_is_listed(monkeypatch):
    monkeypatch.setattr(newcomers, "EXACT", 4)
    places = dict.fromkeys(range(9, 0, -1), placed(HEADS[0]))
    lines = list(newcomers.lines(places, (3, 12), seed=5))
    listed = [line["client"] for line in lines[::2]]
    clients = list(places)
    assert listed == [clients[k] for k in sample_positions(clients, 4, seed=5)]
    assert len(lines) == 8


def test_silhouettes_of_every_count_and_the_choice():
    lines = list(silhouettes(found()))
    assert [line["groups"] for line in lines] == [2, 3]
    values = [line["silhouette"] for line in lines]
    assert values == pytest.approx([0.918654, 0.458287], abs=1e-6)
    assert [line["chosen"] for line in lines] == [True, False]


def test_no_count_is_chosen_when_all_form_one_group():
    strict = Thresholds(0.95, 0.8, 0.2, 0.0, 2, True)
    assert not any(line["chosen"] for line in silhouettes(found(thresholds=strict)))


def test_the_spectrum_has_the_specified_shares():
    lines = list(spectrum(found()))
    assert [line["direction"] for line in lines] == [1, 2, 3]
    shares = [line["share"] for line in lines]
    assert shares == pytest.approx([0.751656, 1 - 0.751656, 0.0], abs=1e-6)
    assert [line["kept"] for line in lines] == [True, True, False]


def test_the_spectrum_is_bounded():
    heads = [np.random.default_rng(k).normal(size=(100, 3)) for k in range(4)]
    wide = found(heads, max_groups=2)
    assert len(list(spectrum(wide))) == DIRECTIONS


def test_ages_count_rounds_and_the_limit_is_the_last_that_counts():
    lines = list(ages({3: 10, 5: 7, 8: 6}, round=10, max_age=3))
    assert [(line["client"], line["age"]) for line in lines] == [(3, 0), (5, 3), (8, 4)]
    assert [line["in_prototypes"] for line in lines] == [True, True, False]
    assert all(line["in_prototypes"] for line in ages({1: 1}, round=99, max_age=0))


def test_landmarks_are_tensors():
    for leaf in newcomers.landmarks_state(found())["landmarks"].values():
        assert leaf.dtype == torch.float64
    assert newcomers.landmarks_of({}) is None
