"""Images as rows of numbers."""

import numpy as np
import pytest
import torch
from scipy.fft import dctn

from fedapp.data.samples import Samples
from fedapp.statistics.rows import images_of, low_frequencies, one_hot


def test_low_frequencies_are_the_corner_of_a_cosine_transform():
    images = np.random.default_rng(0).standard_normal((5, 3, 9, 7))
    expected = dctn(images, axes=(-2, -1), norm="ortho")[..., :4, :4]
    assert low_frequencies(images, 4) == pytest.approx(expected.reshape(5, -1))


@pytest.mark.parametrize(("shape", "width"), [((1, 2, 8), 8), ((2, 1, 1), 2)])
def test_small_images_have_fewer(shape, width):
    images = np.random.default_rng(0).standard_normal((6, *shape))
    found = low_frequencies(images, 4)
    assert found.shape == (6, width)
    # What is left is still an orthonormal part of the image.
    assert (
        np.linalg.norm(found, axis=1) <= np.linalg.norm(images.reshape(6, -1), axis=1)
    ).all()


def test_rows_that_are_no_images_count_as_one_line():
    samples = Samples(torch.arange(6.0).reshape(2, 3), torch.zeros(2))
    assert images_of(samples).shape == (2, 1, 1, 3)


def test_labels_become_unit_rows():
    assert one_hot(np.array([2, 0]), 3).tolist() == [[0, 0, 1], [1, 0, 0]]
