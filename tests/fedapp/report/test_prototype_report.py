import numpy as np
import pytest
from made_run import write_run

from fedapp.report.album import draw
from fedapp.report.build import write_report
from fedapp.report.embeddings import Sample, sample_embeddings
from fedapp.report.folder import load
from fedapp.report.prototype_figures import maturity
from fedapp.report.prototype_parts import RoundRow, flat, read_prototypes
from fedapp.workplace import cache_folder

SETTINGS = {
    "data__label_fraction": 0.4,
    "data__samples_per_client": 40,
    "rounds__count": 3,
    "rounds__evaluate_every": 3,
    "fedsap__supervised": 0.3,
    "fedsap__ramp": 0,
}


def row(round_, *, entropy=1.0, pull=1.0, lam=1.0, full=1.0):
    return RoundRow(
        round=round_,
        entropy_gradient=entropy,
        alignment_gradient=pull,
        lam=lam,
        full_lam=full,
    )


def test_a_run_of_fedsap_has_its_figures(once):
    run = load(once("fedsap", **SETTINGS).path)
    figures, missing = draw(run)
    names = [drawn.name for drawn in figures]
    wanted = ["maturity", "drift", "angles", "pseudo-labels", "prototypes"]
    assert [name for name in names if name in wanted] == wanted
    assert missing == []
    (found,) = (drawn for drawn in figures if drawn.name == "prototypes")
    assert "silhouette by class and cosine is" in found.caption


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        ("fedproto", ["maturity", "drift", "angles", "prototypes"]),
        ("fedmps", ["drift", "angles", "prototypes"]),
        ("fednh", ["angles", "prototypes"]),
        ("fedavg", []),
    ],
)
def test_other_methods_have_what_they_measure(once, method, wanted):
    figures, missing = draw(load(once(method, rounds__count=2).path))
    ours = {"maturity", "drift", "angles", "prototypes", "pseudo-labels"}
    assert [drawn.name for drawn in figures if drawn.name in ours] == wanted
    assert missing == []


def test_without_the_decoded_data_the_map_has_no_dots_and_says_so(
    once, tmp_path, monkeypatch
):
    done = once("fedproto", rounds__count=2)
    monkeypatch.setenv("FEDAPP_CACHE", str(tmp_path))
    figures, missing = draw(load(done.path))
    (found,) = (drawn for drawn in figures if drawn.name == "prototypes")
    assert "Dots" not in found.caption
    (sentence,) = missing
    assert sentence.startswith("A sample of embeddings cannot be made: ")


def test_a_broken_state_leaves_the_map_out(run):
    done = run("fedproto", rounds__count=2)
    (done.path / "final" / "state.safetensors").write_bytes(b"no tensors")
    figures, missing = draw(load(done.path))
    assert "prototypes" not in [drawn.name for drawn in figures]
    assert missing[0].startswith("The prototypes cannot be read")


def test_rounds_in_which_the_full_weight_pulls_harder_are_counted():
    rows = [
        row(1, pull=0.0, lam=0.0),
        row(2, pull=2.0, lam=0.1),
        row(3, pull=0.3, lam=0.2, full=2.0),
        row(4, pull=0.6, full=2.0),
    ]
    found = maturity(rows).alt
    assert "in 2 of 4 rounds, first in round 2." in found


def test_the_plane_is_that_of_the_largest_spread():
    rows = np.array([[0.0, 5, 3], [0, -5, 3], [0, 0, 4], [0, 0, 2]])
    found = flat(rows, (0, 1, 2, 3))
    np.testing.assert_allclose(found.points[:2, 0], [5, -5], atol=1e-12)
    np.testing.assert_allclose(found.points[2:, 1], [1, -1], atol=1e-12)
    assert found.shown == pytest.approx(1.0)
    more = flat(rows, (0, 1, 2, 3), also=np.array([[9.0, 1, 3]]))
    np.testing.assert_allclose(more.points[4], [1, 0], atol=1e-12)


def test_two_prototypes_lie_on_a_line():
    found = flat(np.array([[0.0, 1], [2, 1]]), (0, 1))
    np.testing.assert_allclose(found.points, [[-1, 0], [1, 0]], atol=1e-12)


def test_only_known_prototypes_are_read(once):
    done = once("fedproto", rounds__count=2)
    state = done.tensors("final/state.safetensors")["prototypes"]
    values, classes = read_prototypes(done.path, "fedproto")
    assert list(classes) == state["known"].nonzero()[:, 0].tolist()
    np.testing.assert_allclose(values, state["values"][state["known"]].numpy())
    assert read_prototypes(done.path, "fedavg") is None


def test_the_sample_is_small_and_of_test_images(once):
    done = once("fedproto", rounds__count=2)
    run = load(done.path)
    found = sample_embeddings(
        done.path, run.manifest, dict(run.settings), cache=cache_folder(), rounds=2
    )
    tests = sum(len(plan.test) for plan in run.manifest.clients)
    assert found.rows.shape == (tests, 200)
    assert len(found.classes) == tests


def test_silhouette_tells_apart_from_mixed():
    rows = np.array([[1.0, 0.1], [1, 0], [0, 1], [0.1, 1]])
    assert Sample(rows, (0, 0, 1, 1)).silhouette > 0.9
    assert Sample(rows, (0, 1, 0, 1)).silhouette < 0
    assert Sample(rows, (0, 0, 0, 0)).silhouette is None
    assert Sample(rows, (0, 1, 2, 3)).silhouette is None


def test_the_page_tells_traffic_beside_fedavgs(tmp_path):
    path = write_run(tmp_path / "one", traffic_vs_fedavg=0.0123)
    text = write_report(path).read_text()
    assert "Training traffic is 1.23 % of what FedAvg sends" in text
    plain = write_report(write_run(tmp_path / "two")).read_text()
    assert "what FedAvg sends" not in plain
