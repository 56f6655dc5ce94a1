"""Figures of statistics, of samples, and of settings that vary over runs."""

import json

import numpy as np
import pytest
import torch
from made_run import manifest, write_run

from fedapp.data.clients import client_samples
from fedapp.files import TensorFile, write_tensors
from fedapp.report.album import draw
from fedapp.report.compare import compare
from fedapp.report.compare_page import compare_page
from fedapp.report.compare_sweep import sweep
from fedapp.report.folder import load
from fedapp.report.statistic_figures import FILE, unlike
from fedapp.statistics.recipe import Recipe, statistic
from fedapp.workplace import cache_folder


def figures(path):
    drawn, missing = draw(load(path))
    return {one.name: one for one in drawn}, missing


def with_statistics(path, rows):
    s = torch.tensor(rows, dtype=torch.float64)
    write_tensors(path / FILE, {"statistics": {"s": s}})
    return path


def test_a_map_says_how_often_the_nearest_client_is_of_the_same_group(tmp_path):
    # Groups are 0, 1, 0, 1: the nearest are 2, 3, 0 and 1.
    rows = [[0.0, 1.0], [5.0, 1.0], [0.1, 2.0], [5.2, 0.0]]
    found, missing = figures(with_statistics(write_run(tmp_path / "run"), rows))
    assert "same group for 100.00 % of clients (by chance: 33.33 %)" in (
        found["statistics"].caption
    )
    assert "Hollow: unseen" in found["statistics"].caption
    assert not missing


def test_runs_without_statistics_have_no_map(tmp_path):
    found, missing = figures(write_run(tmp_path / "run"))
    assert "statistics" not in found
    assert not missing


def test_a_broken_file_is_named_and_left_out(tmp_path):
    path = write_run(tmp_path / "run")
    (path / FILE).parent.mkdir()
    (path / FILE).write_bytes(b"no tensors")
    found, missing = figures(path)
    assert "statistics" not in found
    assert str(FILE) in missing[0]


def test_accuracy_by_samples_is_drawn_where_clients_differ(tmp_path):
    path = write_run(tmp_path / "run")
    assert "samples" not in figures(path)[0]
    plans = list(manifest().clients)
    plans[2] = plans[2].__class__(**{**vars(plans[2]), "train": tuple(range(50))})
    (path / "manifest.json").write_text(manifest(clients=tuple(plans)).to_json())
    assert figures(path)[0]["samples"].alt == (
        "Client 0 with 6 training samples has 75.00 %, client 2 with 50 has 87.50 %."
    )


@pytest.mark.parametrize(
    ("samples", "wanted"),
    [
        ([67, 68], False),
        ([100, 109], False),
        ([100, 110], True),
        ([0, 50], True),
        ([0, 0], False),
    ],
)
def test_a_sample_more_or_less_is_no_difference(samples, wanted):
    assert unlike(samples) is wanted


def test_a_run_writes_what_each_client_computed_itself(run):
    settings = {"data__unseen_clients": 2, "rounds__fraction": 0.5}
    done = run("conditional", **settings, rounds__count=1)
    found = done.tensors(str(FILE))["statistics"]["s"]
    final = done.tensors("final/state.safetensors")["agreement"]
    assert found.shape == (6, 32)
    for client in range(4):
        home = f"memory/{client:06}"
        (file, *_) = sorted((done.path / home).iterdir())
        s = TensorFile(file).part("statistic")["s"]
        expected = (s - final["mean"].double()) / final["deviation"].double()
        torch.testing.assert_close(found[client], expected, rtol=0, atol=0)
    # The unseen clients' too, which sent nothing.
    from fedapp.data.images import open_cached

    text = (done.path / "manifest.json").read_text()
    held = manifest().from_json(text)
    images = open_cached(cache_folder(), held.key)
    recipe = Recipe("moments", 32, "auto", "log", 42)
    s = statistic(recipe, client_samples(images, held, 5).train, classes=10, client=5)
    scaled = (s - final["mean"].double().numpy()) / final["deviation"].double().numpy()
    assert np.array_equal(found[5].numpy(), scaled)


def swept(folder, values, **changes):
    paths = []
    for index, (size, seed, mean) in enumerate(values):
        own = {"data.samples-per-client": size, "seed": seed, **changes}
        path = write_run(folder / f"{changes['method']}-{index}", **own)
        summary = json.loads((path / "summary.json").read_text())
        summary["accuracy"]["mean"] = mean
        (path / "summary.json").write_text(json.dumps(summary))
        paths.append(path)
    return paths


def test_runs_of_several_sizes_become_a_line_for_each_method(tmp_path):
    values = [(200, 1, 0.5), (200, 2, 0.75), (1000, 1, 0.875)]
    paths = swept(tmp_path, values, method="fedavg")
    paths += swept(tmp_path, values[1:], method="fedper", **{"local.epochs": 7})
    runs = compare(paths).runs
    assert sweep(runs, "data.samples-per-client") == {
        "fedavg": {200: 0.625, 1000: 0.875},
        "fedper": {200: 0.75, 1000: 0.875},
    }
    assert sweep(runs, "data.shift-groups") == {}
    page = compare_page(compare(paths))
    assert "Accuracy by training samples of a client" in page


def test_crossed_groups_count_as_cells(tmp_path):
    paths = [
        write_run(tmp_path / name, **{"data.shift-groups": name})
        for name in ("2x5", "4")
    ]
    (line,) = sweep(compare(paths).runs, "data.shift-groups").values()
    assert list(line) == [4, 10]


@pytest.mark.parametrize("name", ["compare-mean", "compare-worst"])
def test_runs_of_one_size_have_no_such_figure(tmp_path, name):
    paths = [write_run(tmp_path / n, method=n) for n in ("fedavg", "fedper")]
    page = compare_page(compare(paths))
    assert "Accuracy by training samples" not in page
    assert name in page
