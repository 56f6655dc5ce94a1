"""The 97 configurations of Client-Conditional FL."""

from collections import Counter

import numpy as np
import pytest
from command_line import fedapp
from conftest import Finished

from fedapp.config import SettingsError, defaults
from fedapp.configurations import configuration, configurations
from fedapp.data.clients import make_manifest
from fedapp.data.images import ImageSet
from fedapp.methods import check_settings

ALL = configurations()
SIZES = {"mnist": (6000, 1000), "fashion-mnist": (6000, 1000)}
SIZES |= {"cifar10": (5000, 1000), "cifar100": (500, 100)}


def images(name):
    """Return labels as many as data set ``name`` has, and nothing to see."""
    classes = 100 if name == "cifar100" else 10
    train, test = SIZES[name]
    labels = np.arange(classes * (train + test)) % classes
    return ImageSet(
        images=np.zeros((len(labels), 1, 1, 1), np.uint8),
        labels=labels,
        owners=None,
        official_test=np.arange(len(labels)) >= classes * train,
        classes=classes,
        mean=(0.0,),
        std=(1.0,),
        key=name,
        names=tuple(map(str, range(classes))),
    )


def data_of(name):
    return check_settings({**defaults(), **configuration(name)}).data


def manifest(name):
    data = data_of(name)
    return make_manifest(
        images(data.name),
        seed=42,
        name=data.name,
        clients=data.clients,
        unseen_clients=data.unseen_clients,
        partition=data.partition,
        alpha=data.alpha,
        classes_per_client=data.classes_per_client,
        shift=data.shift,
        shift_groups=data.shift_groups,
        samples_per_client=data.samples_per_client,
        test_fraction=data.test_fraction,
        official_split=data.official_split,
        augment=data.augment,
    )


def test_there_are_97_of_the_kinds_specified():
    kinds = Counter(name.split("-")[0] for name in ALL)
    assert kinds == {"e1": 21, "e2": 21, "e3": 21, "e4a": 17, "e4b": 17}
    sparse = [name for name in ALL if name.split("-")[1].startswith("n")]
    assert (len(ALL), len(sparse)) == (97, 25)


def test_no_two_are_the_same():
    assert len({tuple(sorted(c.settings.items())) for c in ALL.values()}) == 97


@pytest.mark.parametrize("method", ["conditional", "ifca", "dac", "ditto", "oracle"])
def test_every_one_is_right_for_every_method(method):
    for name in ALL:
        check_settings({**defaults(), **configuration(name), "method": method})


def test_whatever_looks_for_clusters_is_told_how_many_there_are():
    for name in ALL:
        data, known = data_of(name), configuration(name)["ifca.clusters"]
        factors = [int(count) for count in data.shift_groups.split("x")]
        assert known == np.prod(factors)
        assert data.clients % known == 0


@pytest.mark.parametrize(
    ("name", "groups", "each"),
    [
        ("e1-g10-mnist", 10, 2),
        ("e2-g4-cifar10", 4, 5),
        ("e3-g5-cifar100", 5, 4),
        ("e4a-g20-fashion-mnist", 20, 1),
        ("e4b-2x5-mnist", 10, 2),
        ("e4b-n200-mnist", 10, 1),
        ("e3-n6000-mnist", 5, 2),
    ],
)
def test_groups_have_equally_many_clients(name, groups, each):
    found = Counter(plan.group for plan in manifest(name).clients)
    assert found == dict.fromkeys(range(groups), each)


@pytest.mark.parametrize("kind", ["e1", "e2", "e3", "e4a", "e4b"])
@pytest.mark.parametrize("size", [6000, 200])
def test_sparse_clients_have_the_samples_they_are_named_for(kind, size):
    made = manifest(f"{kind}-n{size}-mnist")
    assert {len(plan.train) for plan in made.clients} == {size}
    assert {len(plan.test) for plan in made.clients} == {500}
    assert not made.notes


@pytest.mark.parametrize("name", ["e1-g4-mnist", "e4a-g10-cifar100"])
def test_windows_are_those_of_the_specification(name):
    made = manifest(name)
    groups = max(plan.group for plan in made.clients) + 1
    for plan in made.clients:
        width = max(2, -(-made.classes // groups))
        start = plan.group * made.classes // groups
        expected = {(start + i) % made.classes for i in range(width)}
        assert set(plan.classes) == expected


def test_an_unknown_one_is_answered_with_the_closest():
    with pytest.raises(SettingsError, match=r"'e3-g4-mnits': .*'e3-g4-mnist'"):
        configuration("e3-g4-mnits")


def test_one_runs_by_name_and_words_win(tmp_path):
    small = ["data.name=digits", "data.clients=8", "data.samples-per-client=24"]
    small += ["data.official-split=false", "model.name=mlp", "rounds.count=1"]
    where = [f"output.dir={tmp_path}", "output.name=one", "output.report=false"]
    words = ["run", "conditional", "--configuration", "e4b-2x2-mnist"]
    done = fedapp(*words, "--engine", "inline", "--quiet", *small, *where)
    assert done.exit_code == 0, done.output
    groups = [
        c["latent_group"] for c in Finished(tmp_path / "one").summary["per_client"]
    ]
    assert groups == [0, 1, 2, 3] * 2


def test_they_are_listed_and_shown():
    listed = fedapp("configurations").output
    assert all(name in listed for name in ALL)
    shown = fedapp("configurations", "e3-g4-mnist").output.splitlines()
    assert "data.shift=label-permutation" in shown
    assert "data.official-split=true" in shown
    assert fedapp("configurations", "zzz").exit_code == 2
    wrong = fedapp("run", "conditional", "--configuration", "e9")
    assert wrong.exit_code == 2
