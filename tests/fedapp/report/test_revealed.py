"""What a report says the server saw of heads."""

import numpy as np
import pytest
import torch
from made_run import write_groups, write_run

from fedapp.files import write_tensors
from fedapp.hdc.privacy import epsilon_of, sigma_for
from fedapp.report.album import draw
from fedapp.report.folder import load
from fedapp.report.revealed import revealed
from fedapp.report.run_page import run_page
from fedapp.report.similarity import refresh_similarity

SKETCH = {"hdc-fl.exchange": "sketch"}


@pytest.fixture
def told(tmp_path):
    def of(**settings):
        path = write_run(tmp_path / "run", **settings)
        write_groups(path)
        run = load(path)
        text = revealed(run)
        assert text is None or text in run_page(run, [], [])
        return text

    return of


def test_heads_are_said_to_be_seen(told):
    assert "saw the heads of all clients" in told()


def test_other_methods_say_nothing(told):
    assert told(method="fedper") is None


def test_sketches_without_noise_are_counted(told):
    text = told(**SKETCH, **{"hdc-fl.sketch-length": 17})

    assert "at most 2 sketches of 17 numbers from each client, without noise" in text
    assert "Gram matrix" in text


def test_noise_is_told_with_the_epsilon_of_all_refreshes(told):
    text = told(**SKETCH, **{"hdc-fl.epsilon": 8.0, "hdc-fl.delta": 1e-4})
    sigma = sigma_for(epsilon=8.0, delta=1e-4)
    total = epsilon_of(sigma, delta=1e-4, releases=2)

    assert f"deviation {sigma:.3g}" in text
    assert "a sketch is (8, 0.0001)-differentially private" in text
    assert f"2 of one client together are ({total:.4g}, 0.0001)-private" in text
    assert 8 < total < 16


def test_the_similarity_of_sketches_is_that_of_the_last_refresh(tmp_path):
    path = write_run(tmp_path / "run", **SKETCH)
    write_groups(path)
    values = np.array([[1.0, 0.25], [0.25, 1.0]])
    snapshot = {
        "clients": torch.tensor([0, 2]),
        "labels": torch.tensor([0, 1]),
        "similarity": torch.from_numpy(values),
    }
    write_tensors(path / "final/state.safetensors", {"snapshot": snapshot})
    drawn, missing = draw(load(path))
    (figure,) = [one for one in drawn if one.name == "similarity"]

    assert missing == []
    assert "sketches at the last refresh" in figure.caption
    found = refresh_similarity(path / "final/state.safetensors", of="sketches")
    assert found.clients == (0, 2)
    np.testing.assert_array_equal(found.values, values)


def test_a_run_without_sketches_yet_says_so(tmp_path):
    path = write_run(tmp_path / "run", **SKETCH)
    write_groups(path)
    _, missing = draw(load(path))

    assert len(missing) == 1
    assert "sketches cannot be read" in missing[0]
