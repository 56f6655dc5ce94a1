"""Latent groups and what they do to images and labels."""

from collections import Counter

import numpy as np
import pytest
import torch

from fedapp.data.shift import (
    NOISE,
    allowed_classes,
    factors_of,
    group_of,
    indices_of,
    label_maps,
    parse_shift,
    permutations,
    photometric,
    rotate,
    shift_images,
    window,
)


def picture(count=3, channels=2, size=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, channels, size, size, generator=generator)


def test_one_index_drives_all_effects_when_not_crossed():
    shift = parse_shift("label-window+rotation", "4")
    assert indices_of(6, shift) == {"label-window": 2, "rotation": 2}
    assert group_of(6, shift) == 2


def test_crossed_cells_have_the_first_factor_fastest():
    shift = parse_shift("rotation+label-permutation", "2x5")
    assert [factors_of(k, shift) for k in range(4)] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    for client in range(25):
        a, b = client % 2, (client // 2) % 5
        assert indices_of(client, shift) == {"rotation": a, "label-permutation": b}
        assert group_of(client, shift) == a + 2 * b


@pytest.mark.parametrize(("groups", "each"), [("2x2", 5), ("2x5", 2), ("4x5", 1)])
def test_twenty_clients_fill_crossed_cells_evenly(groups, each):
    shift = parse_shift("rotation+label-permutation", groups)
    counts = Counter(group_of(client, shift) for client in range(20))
    assert set(counts.values()) == {each}
    assert sorted(counts) == list(range(20 // each))


def test_four_angles_have_five_clients_each_and_base_rate_four_in_nineteen():
    shift = parse_shift("rotation", "4")
    groups = [group_of(client, shift) for client in range(20)]
    assert Counter(groups) == {0: 5, 1: 5, 2: 5, 3: 5}
    same = sum(a == b for i, a in enumerate(groups) for b in groups[:i])
    assert same / (20 * 19 / 2) == pytest.approx(4 / 19)


def test_no_shift_is_one_group_that_changes_nothing():
    shift, images = parse_shift("none", "4"), picture()
    assert {group_of(client, shift) for client in range(9)} == {0}
    assert torch.equal(shift_images(images, 3, shift, seed=1), images)
    assert allowed_classes(shift, clients=3, classes=10) is None
    assert label_maps(shift, classes=10, seed=0) == []


@pytest.mark.parametrize(
    ("names", "groups", "message"),
    [
        ("rotate", "4", r"data\.shift = 'rotate'; use"),
        ("rotation+rotation", "4", r"data\.shift = .*each once"),
        ("none+rotation", "4", r"data\.shift = "),
        ("", "4", r"data\.shift = "),
        ("rotation", "0", r"data\.shift-groups = '0'"),
        ("rotation", "four", r"data\.shift-groups = 'four'"),
        ("rotation", "2x", r"data\.shift-groups = '2x'"),
        ("rotation", "2x5", "2 factors, .* has 1"),
    ],
)
def test_misspelt_shifts_name_the_setting(names, groups, message):
    with pytest.raises(ValueError, match=message):
        parse_shift(names, groups)


@pytest.mark.parametrize("index", range(4))
def test_right_angles_are_exact_and_counter_clockwise(index):
    images = picture()
    expected = np.rot90(images.numpy(), index, axes=(-2, -1))
    assert np.array_equal(rotate(images, index=index, groups=4).numpy(), expected)


def test_four_quarter_turns_are_the_identity():
    images = turned = picture()
    for _ in range(4):
        turned = rotate(turned, index=2, groups=8)
    assert torch.equal(turned, images)


@pytest.mark.parametrize("index", [1, 2, 3])
def test_other_angles_are_bilinear_about_the_centre(index):
    images = picture(count=1, channels=1, size=9)
    angle = np.deg2rad(72 * index)
    source, expected = images[0, 0].numpy(), np.zeros((9, 9))
    for row in range(9):
        for col in range(9):
            # Counter-clockwise on screen: sample the source turned back by the angle.
            x, y = col - 4, row - 4
            from_x = np.cos(angle) * x - np.sin(angle) * y + 4
            from_y = np.sin(angle) * x + np.cos(angle) * y + 4
            for r in (int(np.floor(from_y)), int(np.floor(from_y)) + 1):
                for c in (int(np.floor(from_x)), int(np.floor(from_x)) + 1):
                    if 0 <= r < 9 and 0 <= c < 9:
                        weight = (1 - abs(from_y - r)) * (1 - abs(from_x - c))
                        expected[row, col] += weight * source[r, c]
    turned = rotate(images, index=index, groups=5)[0, 0].numpy()
    # Border pixels differ: torchvision divides by the covered weight there or not.
    np.testing.assert_allclose(turned[2:7, 2:7], expected[2:7, 2:7], atol=1e-4)


def test_corners_of_a_rotated_image_are_zero():
    turned = rotate(torch.ones(1, 1, 9, 9), index=1, groups=8)
    assert turned[0, 0, 0, 0] == 0
    assert turned[0, 0, 4, 4] == pytest.approx(1)


def test_oblong_images_keep_their_shape():
    images = torch.rand(2, 1, 4, 6)
    assert rotate(images, index=1, groups=4).shape == images.shape


def test_contrast_falls_about_each_images_mean():
    images = picture(count=2, channels=1, size=8)
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(3)) * NOISE
    out = photometric(images, index=3, groups=4, generator=generator)
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    torch.testing.assert_close(out, mean + 0.4 * (images - mean) + noise)


def test_noise_is_one_pattern_per_client_and_repeats():
    shift, images = parse_shift("photometric", "4"), picture(2, channels=3)
    first = shift_images(images, 0, shift, seed=5)
    assert torch.equal(first, shift_images(images, 0, shift, seed=5))
    torch.testing.assert_close((first - images)[0], (first - images)[1])
    other = shift_images(images, 4, shift, seed=5)
    assert not torch.allclose(first, other)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (4, [{0, 1, 2}, {2, 3, 4}, {5, 6, 7}, {7, 8, 9}]),
        (5, [{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}]),
        (10, [{c, (c + 1) % 10} for c in range(10)]),
        (1, [set(range(10))]),
    ],
)
def test_windows_of_ten_classes(groups, expected):
    windows = [window(c, groups=groups, classes=10) for c in range(groups)]
    assert windows == expected


def test_clients_are_allowed_the_window_of_their_own_factor():
    shift = parse_shift("rotation+label-window", "2x5")
    allowed = allowed_classes(shift, clients=4, classes=10)
    assert allowed == [{0, 1}, {0, 1}, {2, 3}, {2, 3}]


def test_one_group_of_labels_is_the_identity():
    assert permutations(1, 10, seed=7) == [list(range(10))]


def test_label_maps_are_distinct_bijections_that_move_every_label():
    maps = permutations(10, 10, seed=7)
    assert maps[0] == list(range(10))
    assert all(sorted(row) == list(range(10)) for row in maps)
    assert all(row[label] != label for row in maps[1:] for label in range(10))
    assert len({tuple(row) for row in maps}) == 10
    assert maps == permutations(10, 10, seed=7)
    assert maps != permutations(10, 10, seed=8)


def test_all_nine_maps_of_four_classes_are_found_and_no_more():
    maps = permutations(10, 4, seed=0)
    assert len({tuple(row) for row in maps}) == 10
    with pytest.raises(ValueError, match=r"4 classes allow 10 groups"):
        permutations(11, 4, seed=0)
