"""Variants are paired re-evaluations of what a run left, and train nothing."""

import json
import statistics

import numpy as np
import pytest
import torch
from conftest import Finished

from fedapp.data.clients import client_samples
from fedapp.data.images import open_cached
from fedapp.hdc.grouping import memberships
from fedapp.hdc.refresh_state import groups_of
from fedapp.ledger import Score
from fedapp.metrics import over_clients
from fedapp.models import build
from fedapp.params import join
from fedapp.study.bench import Bench
from fedapp.study.place import StudyError
from fedapp.study.variant import Variant, sweeps, variants_of
from fedapp.study.variant_results import paired, summary, write
from fedapp.study.variants import applied, evaluate
from fedapp.workplace import cache_folder
from study.runs import FULL, bench_of, make


def scores(bench: Bench, *kinds: str, **sweep: float):
    """Return loss and accuracy of each client by variant."""
    chosen = [Variant(kind) for kind in kinds]
    chosen += [Variant(kind, value) for kind, value in sweep.items()]
    found = evaluate(bench, chosen, processes=1)
    return {
        name: [(one.score.loss, one.score.accuracy) for one in ones]
        for name, ones in found.items()
    }


def evaluation(run: Finished, round_: int):
    """Return what the run itself found: loss and accuracy of each client."""
    rows = [r for r in run.rows("metrics.csv") if int(r["round"]) == round_]
    return [(float(row["loss"]), float(row["accuracy"])) for row in rows]


@pytest.mark.parametrize("name", ["full", "partial"])
def test_soft_is_the_last_evaluation_bit_for_bit(request, name):
    run = request.getfixturevalue(name)
    bench = bench_of(run)
    found = evaluate(bench, [Variant("soft")], processes=1)["soft"]
    got = [(one.score.loss, one.score.accuracy) for one in found]
    assert got == evaluation(run, bench.commit.round)
    accuracy = bench.accuracy([one.score for one in found])
    assert accuracy == run.summary["accuracy"]


def test_an_earlier_commit_gives_the_evaluation_of_its_round(full):
    bench = bench_of(full, 3)
    assert scores(bench, "soft")["soft"] == evaluation(full, 3)
    assert evaluation(full, 3) != evaluation(full, 4)


def test_shared_is_the_evaluation_of_a_run_without_personal_encoders(stable):
    bench = bench_of(stable)
    found = scores(bench, "shared", "soft")
    assert found["shared"] == evaluation(stable, 2) != found["soft"]


def test_own_is_the_cached_encoder_under_the_private_head(full, bench):
    """Put together by hand: model, encoder, head and test samples."""
    manifest, client = bench.manifest, 5
    model = build("mlp", manifest.image, manifest.classes, seed=0)
    row = bench.bank.read(client)
    head = full.tensors("memory/000005/r000004-00.safetensors")["head"]
    model.load_state_dict(join(encoder=row.part("encoder"), head=head))
    images = open_cached(cache_folder(), manifest.key)
    test = client_samples(images, manifest, client).test
    with torch.no_grad():
        right = model(test.images).argmax(dim=1) == test.labels
    assert scores(bench, "own")["own"][client][1] == right.double().mean().item()


def test_private_heads_are_those_in_the_bank_if_everybody_trained(bench):
    for client in bench.clients:
        kept, cached = bench.memory(client)["head"], bench.bank.read(client)
        for name, leaf in cached.part("head").items():
            assert torch.equal(kept[name], leaf)


def test_the_population_of_all_is_the_shared_encoder(bench):
    found = scores(bench, "population", "shared", "own")
    assert found["population"] == found["shared"] != found["own"]


def test_sweeps_meet_the_variants_they_end_in(bench):
    found = scores(bench, "own", "soft", "hard", mix=0.0, temperature=1e-3)
    assert found["mix=0"] == found["own"] != found["soft"]
    assert found["temperature=0.001"] == found["hard"]
    (own,) = scores(bench, temperature=bench.rule().temperature).values()
    losses = [[loss for loss, _ in ones] for ones in (own, found["soft"])]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_raw_memberships_are_those_of_whole_heads(bench):
    """Put together from the heads in the bank, at the run's temperature."""
    heads = np.stack(
        [bench.bank.read(k).part("head")["weight"].double().numpy() for k in range(8)]
    ).reshape(8, -1)
    units = heads / np.linalg.norm(heads, axis=1, keepdims=True)
    groups = groups_of(applied(bench, Variant("raw"))[1])
    members = [units[groups.labels == g].mean(axis=0) for g in groups.ids]
    centroids = np.stack([mean / np.linalg.norm(mean) for mean in members])
    expected = memberships(units, centroids, temperature=bench.rule().temperature)
    np.testing.assert_allclose(groups.weights, expected, atol=1e-9)
    assert np.abs(groups.weights - bench.groups.weights).max() > 1e-3


def test_random_groups_are_drawn_from_the_seed(bench):
    first, again = (scores(bench, "random-groups", "soft") for _ in range(2))
    assert first == again
    assert first["random-groups"] != first["soft"]


def test_who_has_no_entry_is_scored_with_the_shared_encoder(partial):
    bench = bench_of(partial)
    trained = set(bench.bank.clients())
    assert 7 not in trained
    assert len(trained) < 7
    for name in ("soft", "own", "raw", "random-groups"):
        found = evaluate(bench, [Variant(name)], processes=1)[name]
        assert {one.score.client for one in found if one.personal} == trained
    shared = scores(bench, "shared", "own")
    for client in bench.clients:
        same = shared["shared"][client] == shared["own"][client]
        assert same or client in trained


def test_every_kind_is_there_and_values_are_told_apart(bench):
    names = [v.name for v in variants_of(bench, mixes=[0.5], temperatures=[0.25])]
    assert names == [
        "shared",
        "own",
        "population",
        "hard",
        "soft",
        "raw",
        "random-groups",
        "mix=0.5",
        "temperature=0.25",
    ]


def test_sweeps_leave_out_what_the_run_had(bench):
    assert sweeps(bench, None, None) == ([0.25, 0.5, 0.75], [0.01, 0.03, 0.3, 1.0])
    assert sweeps(bench, [0.5, 0.5], None) == ([0.5], [])
    with pytest.raises(StudyError, match="positive; got 0"):
        sweeps(bench, None, [0.0])


def test_differences_are_paired_by_client():
    """The last client is unseen. Differences are .25, 0, -.5 and .25."""
    soft, own = (
        [Score(k, "", 8, 1.0, accuracy) for k, accuracy in enumerate(accuracies)]
        for accuracies in ((0.5, 0.25, 1.0, 0.5, 0.0), (0.75, 0.25, 0.5, 0.75, 1.0))
    )
    got = paired(own, soft, unseen_from=4)
    differences = [0.25, 0.0, -0.5, 0.25]
    assert got == {
        "mean": 0.0,
        "sd": pytest.approx(statistics.stdev(differences)),
        "better": 2,
        "alike": 1,
        "worse": 1,
        "lowest": -0.5,
        "highest": 0.25,
    }
    assert paired(own[:1], soft[:1], unseen_from=4)["sd"] is None


def test_results_lie_in_the_run_folder_and_nothing_else_changes(copied):
    run = copied()
    before = {f: f.read_bytes() for f in run.path.rglob("*") if f.is_file()}
    bench = bench_of(run)
    chosen = variants_of(bench, mixes=[0.5], temperatures=[])
    place, facts = write(bench, evaluate(bench, chosen, processes=1))
    after = {f: f.read_bytes() for f in run.path.rglob("*") if f.is_file()}
    added = {str(f.relative_to(run.path)) for f in after.keys() - before.keys()}
    assert added == {"hdc-fl/variants.csv", "hdc-fl/variants.json"}
    assert before == {f: after[f] for f in before}
    assert json.loads(place.read_text()) == facts
    rows = run.rows("hdc-fl/variants.csv")
    assert len(rows) == len(chosen) * 8
    own = [row for row in rows if row["variant"] == "own"]
    counts = [int(row["examples"]) for row in own]
    accuracy = over_clients([float(row["accuracy"]) for row in own], counts)
    assert facts["variants"]["own"]["accuracy"] == accuracy
    assert {row["latent_group"] for row in own} == {"0", "1", "2", "3"}
    assert list(rows[0]) == [
        "round",
        "variant",
        "client",
        "examples",
        "loss",
        "accuracy",
        "latent_group",
        "group",
        "personalised",
    ]


def test_the_summary_says_if_the_runs_own_scores_came_out(full, stable, copied):
    def own(run, round_=None):
        bench = bench_of(run, round_)
        chosen = [Variant("shared"), Variant("soft")]
        return summary(bench, evaluate(bench, chosen, processes=1))["as_run"]

    assert own(full) == {"variant": "soft", "equal": True}
    assert own(stable) == {"variant": "shared", "equal": True}
    loss = full.rows("metrics.csv")[-1]["loss"]
    assert own(copied("metrics.csv", loss, "0.5")) == {
        "variant": "soft",
        "equal": False,
    }


def test_the_grouping_by_descriptors_and_by_raw_heads_is_summed_up(full, bench):
    found = summary(bench, evaluate(bench, [Variant("soft")], processes=1))
    rows = full.rows("hdc-fl/refreshes.csv")
    for kind, end in (("projected", ""), ("raw", "_raw")):
        got = found["grouping"][kind]
        assert got["silhouette"] == float(rows[-1][f"silhouette{end}"])
        aris = [float(row[f"ari_previous{end}"]) for row in rows[1:]]
        assert got["ari_previous"] == aris[-1]
        assert got["mean_ari_previous"] == pytest.approx(statistics.mean(aris))
        assert got["groups"] == int(rows[-1][f"groups{end}"])
        assert got["refreshes"] == 4
    assert found["grouping"]["projected"]["ari_latent"] == float(rows[-1]["ari_latent"])


def test_a_round_between_refreshes_is_noted(copied):
    run = copied("hdc-fl/refreshes.csv", "\n4,", "\n9,")
    bench = bench_of(run)
    (note,) = summary(bench, evaluate(bench, [Variant("soft")], processes=1))["notes"]
    assert "last refresh, round 3" in note


def test_any_number_of_processes_gives_the_same_bits(bench):
    chosen = [Variant("soft"), Variant("own")]
    one = evaluate(bench, chosen, processes=1)
    done: list[int] = []
    assert evaluate(bench, chosen, processes=2, on_done=done.append) == one
    assert done == [4, 4, 4, 4]


def test_of_a_run_with_sketches_all_but_raw_heads_can_be_told(tmp_path):
    run = make(tmp_path, **FULL, **{"hdc-fl.exchange": "sketch"})
    bench = bench_of(run)
    found = scores(bench, "soft", "own", "hard")
    assert found["soft"] == evaluation(run, bench.commit.round)
    assert "raw" not in {v.name for v in variants_of(bench, mixes=[], temperatures=[])}
    everything = evaluate(bench, [Variant("soft"), Variant("shared")], processes=1)
    (note,) = summary(bench, everything)["notes"]
    assert note == (
        "no variant raw: with hdc-fl.exchange = 'sketch' the server had no heads"
    )


def test_newcomers_keep_their_places_only_among_the_groups_of_the_run(tmp_path):
    unseen = {"data.unseen-clients": 1, "hdc-fl.newcomer-epochs": 1}
    run = make(tmp_path, **FULL, **unseen)
    bench = bench_of(run)
    kinds = [Variant("soft"), Variant("population"), Variant("shared")]
    found = evaluate(bench, kinds, processes=1)
    got = [(one.score.loss, one.score.accuracy) for one in found["soft"]]
    assert got == evaluation(run, bench.commit.round)
    personal = [one.personal for one in found["soft"]]
    assert personal == [True] * 8
    assert [one.personal for one in found["population"]] == [True] * 7 + [False]
    (note,) = summary(bench, found)["notes"]
    assert "not at the last refresh are given the shared encoder" in note
