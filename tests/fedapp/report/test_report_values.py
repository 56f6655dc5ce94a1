"""What the report computes: curves, who counts, similarity, words."""

import json
import re

import numpy as np
import pytest
from made_run import EXAMPLES, write_groups, write_run

from fedapp.report.axes import tick_labels
from fedapp.report.curves import main_rows, other_models, points
from fedapp.report.drawing import GROUPS, MAIN, TAIL, WORST
from fedapp.report.folder import load
from fedapp.report.page import CSS
from fedapp.report.similarity import head_similarity
from fedapp.report.timeline import assigned
from fedapp.report.words import duration, per_cent, points_of, size


@pytest.fixture
def path(tmp_path):
    return write_run(tmp_path / "run")


def test_the_last_point_is_the_summary(path):
    run = load(path)
    last = points(run.scores, unseen_from=run.unseen_from)[-1]

    assert (last.round, last.accuracy) == (4, run.summary.accuracy)
    assert (last.low, last.high) == (0.5625, 0.8125)


def test_who_never_trained_so_far_counts_in_the_mean_only(path):
    run = load(path)
    first = points(run.scores, unseen_from=run.unseen_from)[0].accuracy

    assert first.mean == pytest.approx((0.5 + 0.0625 + 0.125) / 3)
    assert (first.worst, first.gap) == (0.125, 0.375)
    expected = (0.5 * 8 + 0.0625 * 16 + 0.125 * 32) / sum(EXAMPLES[:3])
    assert first.weighted_mean == pytest.approx(expected)


def test_points_of_a_real_run_end_where_its_summary_does(run):
    finished = run("hdc-fl", data__unseen_clients=1, rounds__fraction=0.8)
    found = load(finished.path)

    last = points(found.scores, unseen_from=found.unseen_from)[-1]
    assert last.accuracy.model_dump() == finished.summary["accuracy"]
    assert found.missing == ()


def test_the_first_model_of_a_client_is_its_own(path):
    with (path / "metrics.csv").open("a") as stream:
        stream.write("4,evaluate,0,nearest,8,1.0,0.25,true,4\n")
        stream.write("4,evaluate,2,nearest,32,1.0,1.0,true,4\n")
        stream.write("4,evaluate,3,nearest,4,1.0,0.0,false,0\n")
    scores = load(path).scores

    assert {row.model for row in main_rows(scores)[4]} == {"own"}
    means = other_models(scores, unseen_from=3)
    assert means == {"own": (pytest.approx(2 / 3), 3), "nearest": (0.625, 2)}


def test_similarity_is_of_the_rows_that_count(path):
    write_groups(path)
    later = path / "bank" / "000000" / "r000005-00.safetensors"
    later.write_bytes(b"a round that was never committed")

    found = head_similarity(path / "bank", rounds=4, energy=0.8, rank=0)

    assert found is not None
    assert found.clients == (0, 1, 2)
    expected = [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    np.testing.assert_allclose(found.values, expected, atol=1e-12)


def test_groups_are_those_assigned(path):
    write_groups(path)

    assert assigned(load(path).memberships) == {
        2: {0: 0, 1: 0, 2: 0},
        4: {0: 0, 1: 5, 2: 0},
    }


def test_words():
    assert [per_cent(v) for v in (0.12345, 1.0, None)] == ["12.35 %", "100.00 %", "-"]
    assert [points_of(v) for v in (0.0123, -0.5, -1e-9)] == ["+1.23", "-50.00", "0.00"]
    assert [size(v) for v in (0, 999, 1000, 2.5e9)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "2.5 GB",
    ]
    assert [duration(v) for v in (1.25, 61, 3725.4)] == [
        *("1.2 s", "1 min 1 s", "1 h 2 min 5 s")
    ]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", [0, 1])
def test_text_and_colours_stand_out_in_light_and_dark(mode):
    blocks = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", blocks[mode]))

    for paper in ("paper", "back"):
        for ink in ("ink", "muted", "link"):
            assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper)
    assert contrast(colours["ink"], colours["mark"]) >= 4.5
    for colour in (MAIN, WORST, TAIL, *GROUPS):
        assert contrast(colour, colours["paper"]) >= 3, colour


def test_results_of_a_killed_run_come_from_its_metrics(path):
    summary = json.loads((path / "summary.json").read_text())
    (path / "summary.json").unlink()
    found = load(path).results

    for result, client in zip(found, summary["per_client"], strict=True):
        assert result.model_dump() == client


def test_long_names_give_way_to_numbers_on_an_axis():
    assert tick_labels(["north", "south"], [4, 2]) == ["north", "south"]
    assert tick_labels(["hospital-north", "south"], [4, 2]) == ["4", "2"]
