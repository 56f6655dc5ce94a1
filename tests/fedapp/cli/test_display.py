"""How a run goes."""

import io

import pytest
from rich.console import Console

from fedapp.cli.display import Display, share_done


@pytest.mark.parametrize(
    ("progress", "share"),
    [
        ({}, 0.0),
        ({"round": 0, "rounds": 4}, 0.0),
        ({"round": 3, "rounds": 4, "phase": "train", "done": 1, "asked": 2}, 2.5 / 4),
        ({"round": 3, "rounds": 4, "phase": "evaluate", "done": 1, "asked": 2}, 3 / 4),
    ],
)
def test_share_done(progress, share):
    assert share_done(progress) == share


def test_without_a_terminal_each_evaluation_is_one_plain_line():
    text = io.StringIO()
    display = Display(Console(file=text), quiet=False)
    seen = {"round": 5, "rounds": 9, "evaluated": 4, "mean": 0.5, "worst": 0.25}

    with display:
        for progress in ({"round": 1}, seen, {**seen, "done": 3}):
            display.update(progress)

    assert text.getvalue() == "round 4/9: mean 50.00 %, worst 25.00 %\n"
