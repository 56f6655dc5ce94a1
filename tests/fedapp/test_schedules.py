import pytest

from fedapp.schedules import rounds_of, share_at

SHAPES = ("linear", "constant", "cosine", "step")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("linear", [0, 0.05, 0.5, 1, 1]),
        ("constant", [1, 1, 1, 1, 1]),
        # (1 - cos(pi t / 20)) / 2.
        ("cosine", [0, 0.00615583, 0.5, 1, 1]),
        ("step", [0, 0, 0, 1, 1]),
    ],
)
def test_shares_over_a_warm_up_of_twenty_rounds(shape, expected):
    got = [share_at(shape, elapsed=t, warm_up=20) for t in (0, 1, 10, 20, 50)]
    assert got == pytest.approx(expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_without_a_warm_up_the_full_weight_holds_at_once(shape):
    assert share_at(shape, elapsed=0, warm_up=0) == 1.0


@pytest.mark.parametrize(("elapsed", "warm_up"), [(-1, 3), (1, -1)])
def test_rounds_before_the_first_are_refused(elapsed, warm_up):
    with pytest.raises(ValueError, match="count from 0"):
        share_at("linear", elapsed=elapsed, warm_up=warm_up)


@pytest.mark.parametrize(
    ("share", "rounds", "expected"),
    [
        (0.28, 25, 7),
        (0.2, 30, 6),
        (0.2, 100, 20),
        (0.2, 7, 2),
        (0, 9, 0),
        (1, 9, 9),
        (0.3, 1, 1),
    ],
)
def test_a_share_of_the_rounds_is_rounded_up(share, rounds, expected):
    assert rounds_of(share, rounds) == expected
