"""Real data sets, from the folder that FEDAPP_DATA names."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedapp.data.clients import client_samples, make_manifest
from fedapp.data.images import load_images

pytestmark = pytest.mark.data

COUNTS = {
    "mnist": (60_000, 10_000, 10, (1, 28, 28)),
    "fashion-mnist": (60_000, 10_000, 10, (1, 28, 28)),
    "cifar10": (50_000, 10_000, 10, (3, 32, 32)),
    "cifar100": (50_000, 10_000, 100, (3, 32, 32)),
    "femnist": (20_960, 2_623, 62, (1, 28, 28)),
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def load(name, cache):
    folder = os.environ.get("FEDAPP_DATA")
    if not folder:
        pytest.skip("set FEDAPP_DATA to the folder of the data sets")
    return load_images(
        name,
        path=str(Path(folder) / name.replace("-", "_")),
        image_column="",
        label_column="",
        client_column="",
        cache=cache,
    )


@pytest.mark.parametrize("name", COUNTS)
def test_counts_and_constants_are_those_published(name, cache):
    train, test, classes, shape = COUNTS[name]
    found = load(name, cache)
    assert found.images.shape == (train + test, *shape)
    assert int(found.official_test.sum()) == test
    assert found.classes == classes
    own = found.images[~found.official_test] / np.float32(255)
    np.testing.assert_allclose(own.mean(axis=(0, 2, 3)), found.mean, atol=2e-3)
    # cifar100 is a lossy copy and loses some contrast.
    np.testing.assert_allclose(own.std(axis=(0, 2, 3)), found.std, atol=5e-3)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_classes_are_balanced(name, cache):
    found = load(name, cache)
    counts = np.bincount(found.labels[~found.official_test])
    assert set(counts.tolist()) == {50_000 // found.classes}


def test_writers_are_the_natural_clients_of_femnist(cache):
    found = load("femnist", cache)
    assert found.owners is not None
    assert len(np.unique(found.owners[~found.official_test])) == 180
    assert len(np.unique(found.owners[found.official_test])) == 40
    manifest = make_manifest(
        found,
        seed=1,
        name="femnist",
        clients=50,
        unseen_clients=0,
        partition="natural",
        alpha=1.0,
        classes_per_client=2,
        shift="none",
        shift_groups="1",
        samples_per_client=0,
        test_fraction=0.25,
        official_split=False,
        augment=False,
    )
    writers = [set(found.owners[list(p.train + p.test)]) for p in manifest.clients]
    assert all(len(writer) == 1 for writer in writers)
    assert len(set().union(*writers)) == 50
    assert len(client_samples(found, manifest, 3).train) == len(
        manifest.clients[3].train
    )
