"""Figures of groups: what they compute, and that they stand up to odd runs."""

import re

import numpy as np
import pytest
from made_run import write_groups, write_run

from fedapp.report import group_album
from fedapp.report.change_figures import age_bars, change_lines
from fedapp.report.count_figures import silhouette_curves, spectrum_bars
from fedapp.report.drawing import GROUPS
from fedapp.report.folder import load
from fedapp.report.group_accuracy import group_accuracy
from fedapp.report.map_figure import beside, descriptor_map, principal_plane
from fedapp.report.membership_figure import last_weights, membership_bars
from fedapp.report.parts import (
    AgeRow,
    ClientResult,
    MembershipRow,
    RefreshRow,
    SilhouetteRow,
    SpectrumRow,
)
from fedapp.report.similarity import Similarity
from fedapp.report.timeline import group_colours, group_timeline


def test_the_plane_is_that_of_principal_component_analysis():
    from sklearn.decomposition import PCA

    rows = np.random.default_rng(3).normal(size=(9, 5)) * [3, 2, 1, 0.5, 0.1]
    points, shares = principal_plane(rows @ rows.T)

    pca = PCA(2).fit(rows)
    np.testing.assert_allclose(np.abs(points), np.abs(pca.transform(rows)), atol=1e-9)
    assert shares == pytest.approx(tuple(pca.explained_variance_ratio_))
    for column in points.T:
        assert column[np.argmax(np.abs(column))] > 0


def test_the_plane_does_not_depend_on_a_rotation_of_the_descriptors():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(6, 4))
    turned = rows @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    first, second = (principal_plane(r @ r.T)[0] for r in (rows, turned))
    np.testing.assert_allclose(second, first, atol=1e-9)


def test_heads_that_are_all_alike_lie_on_one_spot():
    points, shares = principal_plane(np.ones((4, 4)))
    assert points.tolist() == [[0.0, 0.0]] * 4
    assert shares == (0.0, 0.0)


def test_labels_keep_away_from_points_and_from_each_other():
    points = np.array([[0.0, 0.0], [0.1, 0.0], [0.05, 0.06], [-0.5, 0.3]])
    places = points + 0.07 * np.array(beside(points, step=0.07))
    for i, place in enumerate(places):
        others = [*np.delete(points, i, 0), *np.delete(places, i, 0)]
        assert min(np.linalg.norm(place - other) for other in others) > 0.05


def test_memberships_of_the_last_round_only():
    rows = [
        MembershipRow(round=r, client=k, group=g, membership=m, assigned=False)
        for r, k, g, m in ((2, 1, 0, 1.0), (4, 0, 0, 0.25), (4, 0, 7, 0.75))
    ]
    assert last_weights(rows) == {0: {0: 0.25, 7: 0.75}}
    assert last_weights([]) == {}


def test_a_newcomer_of_an_earlier_round_is_none_any_more(tmp_path, monkeypatch):
    path = write_run(tmp_path / "run")
    write_groups(path)
    given = []
    monkeypatch.setattr(
        group_album, "membership_bars", lambda weights, late, **_: given.append(late)
    )
    for name in ("group_timeline", "descriptor_map", "group_accuracy"):
        monkeypatch.setattr(group_album, name, lambda *_, **__: None)
    list(group_album.group_album(load(path), ["0", "1", "2", "3"], [], []))
    assert given == [{3: {0: 0.25, 5: 0.75}}]


def test_means_of_groups_leave_newcomers_out():
    results = [client(k, accuracy) for k, accuracy in enumerate((1.0, 0.5, 0.25, 0.0))]
    late = {3: {0: 0.75, 1: 0.25}}
    alt = group_accuracy(
        results, {0: 0, 1: 0, 2: 1}, late, colours={0: "#111111", 1: "#222222"}
    ).alt
    assert alt == (
        "group 0: 2 clients, mean 75.00 %; group 1: 1 clients, mean 25.00 %."
    )


def client(number: int, accuracy: float) -> ClientResult:
    return ClientResult(
        client=number,
        name=str(number),
        examples=10,
        accuracy=accuracy,
        loss=1.0,
        latent_group=number % 4,
        trained=True,
    )


def refreshed(round_: int, groups: int, **changes) -> RefreshRow:
    values = {
        "round": round_,
        "groups": groups,
        "silhouette": None,
        "ari_previous": None,
        "ari_latent": None,
        "stable": False,
        "active": True,
    }
    return RefreshRow(**values | changes)


def drawn(clients: int, groups: int, late: int = 0):
    """Yield every figure of groups for as many clients in as many groups."""
    names = [str(k) for k in range(clients + late)]
    home = {k: k % groups for k in range(clients)}
    colours = group_colours({5: home})
    latent = [k % 4 for k in range(clients + late)]
    spread = {g: 1 / groups for g in range(groups)}
    weights = dict.fromkeys(range(clients), spread)
    new = dict.fromkeys(range(clients, clients + late), spread)
    rows = np.random.default_rng(1).normal(size=(clients, 12))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    alike = Similarity(tuple(range(clients)), rows @ rows.T)
    results = [client(k, k / (clients + late)) for k in range(clients + late)]
    yield group_timeline({5: home}, clients=clients, latent=latent, names=names)
    yield membership_bars(weights, new, assigned=home, colours=colours, names=names)
    yield descriptor_map(alike, home, colours=colours, latent=latent, names=names)
    yield group_accuracy(results, home, new, colours=colours)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("clients", "groups", "late"), [(2, 1, 0), (5, 1, 1), (200, 10, 30)]
)
def test_figures_of_few_and_of_many(clients, groups, late):
    for figure in drawn(clients, groups, late):
        assert not re.search(r"\bnan\b|\binf\b", figure.svg), figure.name
        assert figure.alt.endswith(".")
        # A drawing of 200 clients is no page of its own.
        assert len(figure.svg) < 300_000, figure.name


@pytest.mark.filterwarnings("error")
def test_figures_of_a_single_refresh():
    once = change_lines([refreshed(5, 1)], most=0.2, least=0.8)
    assert "nothing to compare with yet" in once.svg
    assert "round 5, without stable groups." in once.caption
    never = refreshed(5, 1, active=False, head_change=float("inf"))
    assert "did not come into use" in change_lines([never], most=None, least=None).alt

    row = SilhouetteRow(round=5, groups=2, silhouette=0.01, chosen=False)
    assert (
        "one group: no count reached the floor"
        in silhouette_curves([row], floor=0.05).alt
    )
    whole = SpectrumRow(round=5, direction=1, share=1.0, kept=True)
    assert "The first 1 of 1 are kept" in spectrum_bars([whole], energy=None).alt
    age = AgeRow(round=5, client=0, age=7, in_prototypes=False)
    assert "1 are too old for prototypes." in age_bars([age]).caption


def test_colours_go_to_the_groups_there_are_before_those_that_were():
    colours = group_colours({2: {0: 0, 1: 1}, 4: {0: 9, 1: 4}})
    assert colours == {4: GROUPS[0], 9: GROUPS[1], 0: GROUPS[2], 1: GROUPS[3]}
    assert group_colours({}) == {}
