import re
from dataclasses import replace

import pytest
import torch

from fedapp.algorithm import Update
from fedapp.bank import Bank
from fedapp.turn import (
    Spec,
    Turn,
    check_update,
    round_half_up,
    sample_clients,
    specs_of,
)

TREE = {"w": torch.tensor([[1.0, -2.0]]), "steps": torch.tensor(3)}


def sample(**changes):
    key = {"seed": 5, "round": 3, "candidates": 50, "fraction": 0.2}
    return sample_clients(**key | changes)


def test_the_sample_depends_on_its_arguments_alone():
    first = sample()
    torch.manual_seed(99)
    assert sample() == first
    assert all(sample(**other) != first for other in ({"seed": 6}, {"round": 4}))


def test_the_sample_is_sorted_distinct_and_of_all_candidates():
    draws = [sample(round=round_) for round_ in range(1, 100)]
    assert all(list(draw) == sorted(set(draw)) for draw in draws)
    # Missed by 99 draws of one in five: probability 50 * 0.8^99 < 1e-7.
    assert {client for draw in draws for client in draw} == set(range(50))


@pytest.mark.parametrize(
    ("fraction", "candidates", "count"),
    [
        (0.29, 100, 29),
        (0.25, 10, 3),
        (0.24, 10, 2),
        (0.01, 10, 1),
        (0.99, 10, 10),
    ],
)
def test_the_size_of_a_sample_is_rounded_and_at_least_one(fraction, candidates, count):
    assert len(sample(fraction=fraction, candidates=candidates)) == count


def test_a_share_of_one_is_everybody():
    assert sample(fraction=1.0, candidates=7) == (0, 1, 2, 3, 4, 5, 6)


def test_halves_are_rounded_up():
    assert [round_half_up(v) for v in (0.5, 1.5, 2.5, 2.4999)] == [1, 2, 3, 2]


def update(sent=None, num_examples=4, **metrics):
    return Update({"model": TREE} if sent is None else sent, num_examples, metrics)


EXPECTED = {"model": specs_of(TREE)}


def test_a_reply_as_expected_is_accepted():
    check_update(update(loss=0.5), EXPECTED)


def with_tensor(name, leaf):
    return {"model": {**TREE, name: leaf}}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (update(num_examples=0), "it stands for 0 examples, not 1 or more"),
        (update(num_examples=-2), "it stands for -2 examples, not 1 or more"),
        (update({}), "it holds nothing instead of ['model']"),
        (
            update({"model": TREE, "extra": {}}),
            "it holds ['extra', 'model'] instead of ['model']",
        ),
        (
            update({"model": {"w": TREE["w"]}}),
            "tensor model/steps is missing",
        ),
        (
            update(with_tensor("b", torch.ones(1))),
            "tensor model/b was not asked for",
        ),
        (
            update(with_tensor("w", torch.ones(2, 1))),
            "tensor model/w has shape (2, 1) instead of (1, 2)",
        ),
        (
            update(with_tensor("w", torch.ones(2))),
            "tensor model/w has shape (2,) instead of (1, 2)",
        ),
        (
            update(with_tensor("w", TREE["w"].double())),
            "tensor model/w is torch.float64 instead of torch.float32",
        ),
        (
            update(with_tensor("steps", torch.tensor(3.0))),
            "tensor model/steps is torch.float32 instead of torch.int64",
        ),
        (
            update(with_tensor("w", torch.tensor([[1.0, float("nan")]]))),
            "tensor model/w has a NaN or an infinity",
        ),
        (
            update(with_tensor("w", torch.tensor([[float("-inf"), 1.0]]))),
            "tensor model/w has a NaN or an infinity",
        ),
        (update(loss=float("nan")), "metric loss is nan"),
        (update(loss=float("inf")), "metric loss is inf"),
    ],
)
def test_what_is_wrong_with_a_reply_is_said(bad, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_update(bad, EXPECTED)


def test_a_reply_that_should_be_empty_must_be():
    check_update(update({}), {})
    with pytest.raises(ValueError, match=r"holds \['model'\] instead of nothing"):
        check_update(update(), {})


def test_none_stands_for_any_size_of_one_dimension():
    expected = {"protos": {"p": Spec((None, 3))}}
    for rows in (0, 1, 5):
        check_update(update({"protos": {"p": torch.ones(rows, 3)}}), expected)
    for shape, text in [((5, 2), "(5, 2)"), ((3,), "(3,)"), ((1, 1, 3), "(1, 1, 3)")]:
        message = f"shape {text} instead of ('any', 3)"
        with pytest.raises(ValueError, match=re.escape(message)):
            check_update(update({"protos": {"p": torch.ones(shape)}}), expected)


@pytest.fixture
def turn(tmp_path):
    return Turn(
        round=2,
        rounds=3,
        phase="train",
        step=0,
        num_clients=4,
        sampled=(0, 1),
        seed=5,
        bank=Bank(tmp_path),
    )


def test_the_generator_depends_on_seed_round_and_phase(turn):
    def draw(**changes):
        return replace(turn, **changes).generator().integers(2**62)

    assert draw() == draw() == draw(sampled=(2, 3))
    others = [draw(seed=6), draw(round=3), draw(phase="estimate")]
    assert len({draw(), *others}) == 4


def test_only_the_last_round_is_the_last(turn):
    assert [replace(turn, round=r).last for r in (1, 2, 3)] == [False, False, True]
