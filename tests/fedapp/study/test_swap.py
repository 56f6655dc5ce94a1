"""The donor swap over a run; its measures are tested in tests/fedapp/hdc."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedapp.hdc import swap as measure
from fedapp.study.place import StudyError
from fedapp.study.pool import spread
from fedapp.study.swap import swap
from fedapp.study.swap_results import write
from fedapp.study.variant import Variant
from fedapp.study.variants import evaluate
from study.runs import bench_of


@pytest.fixture(scope="module")
def swaps(bench):
    return swap(bench, processes=1)


def test_the_diagonal_is_every_clients_own_encoder(bench, swaps):
    own = evaluate(bench, [Variant("own")], processes=1)["own"]
    assert np.diag(swaps.loss).tolist() == [one.score.loss for one in own]
    assert np.diag(swaps.accuracy).tolist() == [one.score.accuracy for one in own]


def test_targets_are_in_rows_and_donors_in_columns(bench, swaps):
    encoder = bench.bank.read(6).part("encoder")
    score = bench.score(2, {"encoder": encoder}, name="")
    assert (swaps.loss[2, 6], swaps.accuracy[2, 6]) == (score.loss, score.accuracy)
    assert swaps.loss[2, 6] != swaps.loss[6, 2]


def test_groups_and_similarity_are_those_of_the_last_refresh(full, bench, swaps):
    rows = full.rows("hdc-fl/memberships.csv")
    last = [r for r in rows if r["round"] == "4" and r["assigned"] == "True"]
    found = {int(r["client"]): int(r["group"]) for r in last}
    ids = [bench.groups.ids[label] for label in swaps.found]
    assert ids == [found[client] for client in swaps.clients]
    assert swaps.latent == (0, 1, 2, 3) * 2
    assert np.diag(swaps.similarity) == pytest.approx([1.0] * 8)


def test_a_damaged_donor_is_named(copied):
    run = copied()
    bench = bench_of(run)
    row = bench.bank.read(2).file
    whole = bytearray(row.path.read_bytes())
    whole[row.span("encoder")[0]] ^= 1
    row.path.write_bytes(whole)
    with pytest.raises(StudyError, match="row of client 2 is damaged"):
        swap(bench, processes=1)


def test_pairs_and_summary_lie_in_the_run_folder(copied, swaps):
    run = copied()
    bench = bench_of(run)
    place, facts = write(bench, swaps)
    assert json.loads(place.read_text()) == facts
    rows = run.rows("hdc-fl/swap.csv")
    assert len(rows) == facts["pairs"] == 8 * 7
    gain = measure.gains(swaps.loss)
    for row in rows:
        i, j = int(row["target"]), int(row["donor"])
        assert float(row["gain"]) == gain[i, j]
        assert float(row["similarity"]) == swaps.similarity[i, j]
        change = swaps.accuracy[i, j] - swaps.accuracy[i, i]
        assert float(row["accuracy_change"]) == change
        assert row["same_latent_group"] == str(i % 4 == j % 4).lower()
        sets = [set(bench.manifest.clients[k].classes) for k in (i, j)]
        jaccard = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
        assert float(row["label_jaccard"]) == jaccard
    gains = [float(row["gain"]) > 0 for row in rows]
    assert facts["beneficial"] == pytest.approx(np.mean(gains))
    assert facts["rho"] == pytest.approx(
        np.mean(measure.spearman_by_target(swaps.similarity, gain))
    )
    assert facts["latent_groups"]["base_rate"] == pytest.approx(1 / 7)
    same = [r for r in rows if r["same_latent_group"] == "true"]
    change = np.mean([float(row["accuracy_change"]) for row in same])
    assert facts["latent_groups"]["same"] == pytest.approx(change)
    for target in facts["targets"]:
        mine = [r for r in rows if int(r["target"]) == target["client"]]
        nearest = max(mine, key=lambda row: float(row["similarity"]))
        assert target["nearest"] == int(nearest["donor"])


def test_one_group_has_nothing_to_compare(copied, swaps):
    bench = bench_of(copied())
    _, facts = write(bench, replace(swaps, latent=(0,) * 8))
    assert facts["latent_groups"] is None
    assert facts["found_groups"] is not None


def test_who_was_not_grouped_is_not_swapped(partial):
    bench = bench_of(partial)
    done: list[int] = []
    found = swap(bench, processes=1, on_done=done.append)
    assert list(found.clients) == bench.bank.clients()
    assert sum(done) == len(found.clients) ** 2


def test_two_clients_are_too_few(bench):
    few = replace(bench.snapshot, clients=bench.snapshot.clients[:2])
    with pytest.raises(StudyError, match="2 clients have a head"):
        swap(replace(bench, snapshot=few), processes=1)


@pytest.mark.slow
def test_any_number_of_processes_gives_the_same_bits(bench, swaps):
    found = swap(bench, processes=3)
    assert found.loss.tobytes() == swaps.loss.tobytes()
    assert found.accuracy.tobytes() == swaps.accuracy.tobytes()


@pytest.mark.slow
def test_a_process_that_dies_is_an_error_and_not_a_wait(bench):
    with pytest.raises(StudyError, match="before its time"):
        list(spread(_die, [1, 2], bench, processes=2))


def _die(bench, job):
    import os

    os._exit(9)
