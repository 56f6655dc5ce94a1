"""Folders that are no run's, and parts that are missing or broken."""

import json

import pytest
from made_run import manifest, write_config, write_groups, write_run

from fedapp.config import defaults
from fedapp.report.build import write_report
from fedapp.report.folder import load
from fedapp.report.reading import RunFolderError
from fedapp.report.run_page import run_page


@pytest.fixture
def path(tmp_path):
    return write_run(tmp_path / "run")


def test_a_path_that_does_not_exist(tmp_path):
    with pytest.raises(RunFolderError, match=r"none is no run folder: it does not ex"):
        load(tmp_path / "none")


def test_a_file(path):
    with pytest.raises(RunFolderError, match=r"metrics\.csv is no run folder: it is a"):
        load(path / "metrics.csv")


def test_a_folder_of_run_folders(path):
    with pytest.raises(RunFolderError, match=r"neither config.toml nor .* as 'run'\?"):
        load(path.parent)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("summary.json", '{"status": ', r"summary\.json cannot be read: Expecting"),
        ("summary.json", "[]", r"summary\.json cannot be read"),
        ("summary.json", '{"rounds": "many"}', r"cannot be read: rounds: "),
        ("summary.json", '{"accuracy": {"mean": 1.5}}', r"read: accuracy\.mean: "),
        ("config.toml", "method = ", r"config\.toml cannot be read: "),
    ],
)
def test_a_broken_main_file_is_an_error_that_names_it(path, name, text, message):
    (path / name).write_text(text)

    with pytest.raises(RunFolderError, match=message):
        load(path)


def test_a_setting_of_another_type_is_an_error_that_names_it(path):
    write_config(path, defaults() | {"data.unseen-clients": "two"})

    with pytest.raises(RunFolderError, match=r"data.unseen-clients = 'two' is no int"):
        load(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("manifest.json", "{}"),
        ("manifest.json", '{"version": 1, "clients": [{"group": null}]}'),
        ("metrics.csv", "a,b\n1,2\n"),
        ("metrics.csv", "round,client\n1,-4\n"),
        ("timing.csv", "round,phase,client,seconds\none,train,1,2\n"),
        ("hdc-fl/refreshes.csv", "round\nx\n"),
        ("hdc-fl/memberships.csv", "round\nx\n"),
    ],
)
def test_another_broken_file_is_left_out_and_named(path, name, text):
    write_groups(path)
    (path / name).write_text(text)

    run = load(path)
    start = f"{name} cannot be read and is left out: "
    assert any(sentence.startswith(start) for sentence in run.missing)
    assert f"{name} cannot be read" in run_page(run, [], run.missing)


def test_half_a_row_at_the_end_is_left_out(path):
    whole = load(path).scores
    with (path / "metrics.csv").open("a") as stream:
        stream.write("6,evaluate,0,ow")

    run = load(path)

    assert run.scores == whole
    assert "metrics.csv ends within a row; that row is left out." in run.missing


def test_a_broken_bank_is_named(path):
    write_groups(path)
    (path / "bank/000001/r000004-00.safetensors").write_bytes(b"short")

    text = write_report(path).read_text("utf-8")

    assert "The heads in bank/ cannot be read and are left out" in text
    assert not (path / "figures" / "similarity.svg").exists()


def test_a_manifest_of_fewer_clients_than_ran_is_lived_with(path):
    write_groups(path)
    short = manifest(clients=manifest().clients[:2])
    (path / "manifest.json").write_text(short.to_json())
    summary = json.loads((path / "summary.json").read_text())
    del summary["per_client"]
    (path / "summary.json").write_text(json.dumps(summary))

    write_report(path)

    assert [c.latent_group for c in load(path).results] == [0, 1, None, None]
