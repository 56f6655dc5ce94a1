"""Manifests, and one client's samples from them."""

import numpy as np
import pytest
import torch

from fedapp.data.clients import (
    ClientCache,
    ClientData,
    Manifest,
    client_samples,
    local_samples,
    make_manifest,
)
from fedapp.data.images import ImageSet
from fedapp.data.samples import Samples
from fedapp.data.shift import parse_shift
from fedapp.data.view import ClientView, augmented

COUNT, CLASSES = 400, 5


@pytest.fixture
def images():
    rng = np.random.default_rng(3)
    return ImageSet(
        images=rng.integers(0, 256, (COUNT, 3, 6, 6), dtype=np.uint8),
        labels=rng.permutation(np.arange(COUNT) % CLASSES),
        owners=None,
        official_test=np.arange(COUNT) % 4 == 0,
        classes=CLASSES,
        mean=(0.5, 0.4, 0.3),
        std=(0.25, 0.5, 0.2),
        key="test-1",
        names=tuple("abcde"),
    )


def manifest(images, **changes):
    settings = {
        "seed": 11,
        "name": "custom",
        "clients": 8,
        "unseen_clients": 0,
        "partition": "label-proportions",
        "alpha": 1.0,
        "classes_per_client": 2,
        "shift": "none",
        "shift_groups": "4",
        "samples_per_client": 0,
        "test_fraction": 0.25,
        "official_split": False,
        "augment": False,
    }
    return make_manifest(images, **(settings | changes))


def normal(images, rows):
    pixels = images.images[list(rows)].astype(np.float32) / 255
    mean, std = np.array(images.mean), np.array(images.std)
    return ((pixels - mean[:, None, None]) / std[:, None, None]).astype(np.float32)


def test_a_manifest_survives_json(images):
    made = manifest(images, shift="rotation+label-permutation", shift_groups="2x2")
    assert Manifest.from_json(made.to_json()) == made


def test_the_same_inputs_give_the_same_bytes(images):
    assert manifest(images).to_json() == manifest(images).to_json()
    assert manifest(images).to_json() != manifest(images, seed=12).to_json()


def test_a_manifest_of_another_version_is_refused(images):
    text = manifest(images).to_json().replace('"version":1', '"version":9')
    with pytest.raises(ValueError, match="manifest of version 9; this release reads 1"):
        Manifest.from_json(text)


def test_a_manifest_describes_labels_as_clients_see_them(images):
    made = manifest(images, shift="label-permutation", shift_groups="2")
    swapped = made.clients[1]
    seen = [made.label_maps[1][images.labels[row]] for row in swapped.train]
    assert swapped.histogram == tuple(np.bincount(seen, minlength=CLASSES))
    assert swapped.classes == tuple(sorted(set(seen)))
    assert [plan.group for plan in made.clients] == [0, 1] * 4


def test_crossed_groups_are_cells(images):
    made = manifest(images, shift="rotation+label-permutation", shift_groups="2x4")
    assert [plan.group for plan in made.clients] == list(range(8))
    assert made.clients[5].factors == (1, 2)


def test_a_client_has_its_rows_normalised(images):
    made = manifest(images)
    for client in (0, 7):
        data = client_samples(images, made, client)
        plan = made.clients[client]
        np.testing.assert_allclose(
            data.train.images, normal(images, plan.train), atol=1e-6
        )
        np.testing.assert_allclose(
            data.test.images, normal(images, plan.test), atol=1e-6
        )
        assert data.train.labels.tolist() == images.labels[list(plan.train)].tolist()
        assert data.train.images.dtype == torch.float32
        assert data.train.labels.dtype == torch.int64


def test_both_parts_get_the_clients_shift(images):
    made = manifest(images, shift="rotation+label-permutation", shift_groups="4x2")
    plan, data = made.clients[7], client_samples(images, made, 7)
    for part, rows in ((data.train, plan.train), (data.test, plan.test)):
        turned = np.rot90(normal(images, rows), 3, axes=(-2, -1))
        np.testing.assert_allclose(part.images, turned, atol=1e-6)
        own = images.labels[list(rows)]
        assert part.labels.tolist() == [made.label_maps[1][label] for label in own]


def test_shift_comes_before_normalisation(images):
    made = manifest(images, shift="rotation", shift_groups="8")
    corner = client_samples(images, made, 1).train.images[0, :, 0, 0]
    # Zero fill is black: (0 - mean) / std of each channel.
    torch.testing.assert_close(corner, torch.tensor([-2.0, -0.8, -1.5]))


def test_a_window_reaches_the_partition(images):
    made = manifest(images, partition="iid", shift="label-window", shift_groups="5")
    assert [plan.classes for plan in made.clients[:3]] == [(0, 1), (1, 2), (2, 3)]


def test_official_test_samples_are_used_when_asked_for(images):
    made = manifest(images, official_split=True)
    for plan in made.clients:
        assert images.official_test[list(plan.test)].all()
        assert not images.official_test[list(plan.train)].any()


def test_augmented_training_samples_stay_raw_until_asked(images):
    made = manifest(images, shift="rotation", shift_groups="4", augment=True)
    data = client_samples(images, made, 1)
    plain = client_samples(images, manifest(images, shift="rotation"), 1)
    assert data.train.images.dtype == torch.uint8
    assert data.test.view is None
    everything, _ = next(data.train.in_order(1000))
    assert torch.equal(everything, plain.train.images)
    assert torch.equal(data.test.images, plain.test.images)


def test_augmentation_comes_before_the_clients_fixed_rotation(images):
    raw = torch.from_numpy(images.images[:50])
    view = ClientView(1, parse_shift("rotation", "4"), 0, images.mean, images.std)
    still = ClientView(0, parse_shift("rotation", "4"), 0, images.mean, images.std)
    turned = view(raw, torch.Generator().manual_seed(4))
    upright = still(raw, torch.Generator().manual_seed(4))
    assert torch.equal(turned, torch.rot90(upright, 1, dims=(-2, -1)))
    assert not torch.equal(upright, still(raw, None))


def test_augmentation_crops_from_the_padded_image_and_flips():
    raw = torch.arange(1, 31, dtype=torch.uint8).view(1, 1, 5, 6).repeat(400, 2, 1, 1)
    padded = torch.nn.functional.pad(raw[0], (4, 4, 4, 4))
    possible = {
        (flip, top, left): crop.flip(-1) if flip else crop
        for flip in (False, True)
        for top in range(9)
        for left in range(9)
        for crop in [padded[:, top : top + 5, left : left + 6]]
    }
    seen = []
    for image in augmented(raw, torch.Generator().manual_seed(0)):
        (match,) = [key for key, crop in possible.items() if torch.equal(crop, image)]
        seen.append(match)
    flips = sum(flip for flip, _, _ in seen)
    # Half of 400 are flipped; five standard deviations of 10.
    assert abs(flips - 200) < 50
    assert {top for _, top, _ in seen} == set(range(9))
    assert {left for _, _, left in seen} == set(range(9))


def test_augmentation_depends_on_its_generator_alone(images):
    raw = torch.from_numpy(images.images[:20])
    first = augmented(raw, torch.Generator().manual_seed(1))
    torch.manual_seed(99)
    assert torch.equal(first, augmented(raw, torch.Generator().manual_seed(1)))
    assert not torch.equal(first, augmented(raw, torch.Generator().manual_seed(2)))


def test_a_device_uses_its_official_split_or_splits_by_class(images):
    official = local_samples(images, test_fraction=0.5, seed=0, augment=False)
    assert (len(official.train), len(official.test)) == (300, 100)
    undivided = ImageSet(**{**vars(images), "official_test": np.zeros(COUNT, bool)})
    own = local_samples(undivided, test_fraction=0.2, seed=0, augment=True)
    assert np.bincount(own.test.labels).tolist() == [16] * CLASSES
    assert np.bincount(own.train.labels).tolist() == [64] * CLASSES
    assert own.train.images.dtype == torch.uint8


def test_a_manifest_belongs_to_its_data_set(images):
    other = ImageSet(**{**vars(images), "key": "test-2"})
    with pytest.raises(ValueError, match="for data set test-1, not test-2"):
        client_samples(other, manifest(images), 0)


def test_clients_outside_the_manifest_are_refused(images):
    for client in (-1, 8):
        with pytest.raises(ValueError, match="there are 8, from 0"):
            client_samples(images, manifest(images), client)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unseen_clients": 8}, "data.unseen-clients = 8 of data.clients = 8"),
        ({"shift": "spin"}, "data.shift = 'spin'"),
        ({"partition": "natural"}, "data.client-column"),
    ],
)
def test_wrong_settings_are_named(images, changes, message):
    with pytest.raises(ValueError, match=message):
        manifest(images, **changes)


def test_an_official_split_must_be_there(images):
    undivided = ImageSet(**{**vars(images), "official_test": np.zeros(COUNT, bool)})
    with pytest.raises(ValueError, match="no official test split"):
        manifest(undivided, official_split=True)


def test_the_cache_forgets_what_was_used_longest_ago():
    def build(key):
        built.append(key)
        part = Samples(torch.zeros(10, 1, 5, 5), torch.zeros(10, dtype=torch.int64))
        return ClientData(part, part)

    # Each takes 2 x (1000 + 80) bytes; two fit.
    built: list[str] = []
    cache = ClientCache(limit=4500)
    for key in ("a", "b", "a", "c", "a", "b"):
        cache.get(key, lambda key=key: build(key))
    assert built == ["a", "b", "c", "b"]
    small = ClientCache(limit=10)
    assert len(small.get("d", lambda: build("d")).train) == 10


def test_hidden_labels_are_a_part_of_the_training_samples(images):
    whole = manifest(images, label_fraction=1.0)
    some = manifest(images, label_fraction=0.25)
    assert whole == manifest(images)
    assert "unlabelled" not in whole.to_json()
    assert "label-fraction" not in whole.to_json()
    assert Manifest.from_json(some.to_json()) == some
    for client, (plan, before) in enumerate(
        zip(some.clients, whole.clients, strict=True)
    ):
        assert sorted((*plan.train, *plan.unlabelled)) == sorted(before.train)
        assert plan.test == before.test
        assert plan.classes == before.classes
        data = client_samples(images, some, client)
        assert data.train.labels.tolist() == images.labels[list(plan.train)].tolist()
        hidden = images.labels[list(plan.unlabelled)].tolist()
        assert data.unlabelled.labels.tolist() == hidden
    assert client_samples(images, whole, 0).unlabelled is None


def test_a_device_hides_labels_as_well(images):
    arguments = {"test_fraction": 0.5, "seed": 0, "augment": False}
    whole = local_samples(images, **arguments)
    some = local_samples(images, **arguments, label_fraction=0.25)
    assert len(some.train) + len(some.unlabelled) == len(whole.train)
    assert torch.equal(some.test.images, whole.test.images)
    assert len(some.train) == pytest.approx(0.25 * len(whole.train), abs=CLASSES)
