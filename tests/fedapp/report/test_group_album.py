"""Which figures of groups a run has, and what is said of those it has not."""

import numpy as np
import pytest
import torch
from made_run import write_groups, write_run

from fedapp.files import write_tensors
from fedapp.precision import to_half
from fedapp.report import group_album
from fedapp.report.album import draw
from fedapp.report.folder import load
from fedapp.report.similarity import head_similarity


@pytest.fixture
def path(tmp_path):
    path = write_run(tmp_path / "run")
    write_groups(path)
    return path


def drawn(path):
    figures, missing = draw(load(path))
    return {figure.name: figure for figure in figures}, missing


def as_sampled(path):
    """Turn the run into one of many clients, of which 1 and 2 were compared."""
    file = path / "hdc-fl/refreshes.csv"
    head, first, last = file.read_text().split()
    file.write_text(f"{head},method\n{first},sampled\n{last},projected\n")
    file = path / "hdc-fl/memberships.csv"
    rows = file.read_text().splitlines(keepends=True)
    file.write_text("".join(row for row in rows if not row.startswith("4,0,")))
    snapshot = {
        "clients": torch.tensor([0, 1, 2]),
        "labels": torch.tensor([0, 1, 0]),
        "sampled": torch.tensor([1, 2]),
        "similarity": torch.tensor([[1.0, 0.25], [0.25, 1.0]], dtype=torch.float64),
    }
    write_tensors(path / "final/state.safetensors", {"snapshot": snapshot})


def test_above_a_number_of_clients_the_matrix_is_left_out_and_the_map_is_not(
    path, monkeypatch
):
    assert "similarity" in drawn(path)[0]
    monkeypatch.setattr(group_album, "MATRIX", 2)
    figures, missing = drawn(path)

    assert "similarity" not in figures
    assert "map" in figures
    assert missing == [
        "The matrix of inner products of 3 clients is left out: it is drawn for 2 at "
        "most."
    ]


def test_of_a_sample_its_clients_are_shown_and_said_to_be_one(path):
    as_sampled(path)
    (path / "bank").rename(path / "not-read")
    figures, missing = drawn(path)

    assert len(missing) == 1
    assert "figures show 2 of them, a sample" in missing[0]
    assert "groups" not in figures
    assert "descriptors at the last refresh" in figures["similarity"].caption
    assert "descriptors at the last refresh" in figures["map"].caption
    # Client 3 is a newcomer; 0 is not in the tables.
    told = figures["group-accuracy"].alt
    assert told == "group 0: 1 clients, mean 87.50 %; group 5: 1 clients, mean 37.50 %."


def test_without_the_state_the_map_of_a_sample_is_missing(path):
    as_sampled(path)
    (path / "final/state.safetensors").unlink()
    figures, missing = drawn(path)

    assert "map" not in figures
    assert "descriptors cannot be read and are left out" in missing[1]


def test_heads_in_half_precision_are_as_alike(path):
    def found(convert, **notes):
        for client in range(3):
            head = {"weight": torch.tensor([[1.0, 0.3 * client], [0.1, 2.0]])}
            name = path / "bank" / f"{client:06}" / "r000004-00.safetensors"
            write_tensors(name, convert({"head": head}), num_examples="6", **notes)
        return head_similarity(path / "bank", rounds=4, energy=0.8, rank=0)

    wide = found(dict)
    half = found(lambda payload: to_half(payload)[0], precision="float16")

    assert half.clients == wide.clients == (0, 1, 2)
    np.testing.assert_allclose(half.values, wide.values, atol=2**-10)
    assert not np.array_equal(half.values, wide.values)
