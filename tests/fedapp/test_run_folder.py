import csv
import json
import time
import tomllib

import pytest
import torch

from fedapp import config
from fedapp.files import TensorFile
from fedapp.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "deep" / "run")


def shown(folder):
    return json.loads((folder.path / "progress.json").read_text())


def test_an_existing_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"/run exists already.*output\.name"):
        RunFolder(tmp_path / "run")
    assert [file.read_text() for file in (tmp_path / "run").iterdir()] == ["mine"]


def test_a_folder_that_cannot_be_made_is_an_error_that_says_what_to_change(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot make .*/file/run.*output\.dir"):
        RunFolder(tmp_path / "file" / "run")


def test_config_toml_has_every_setting_by_table(folder):
    folder.write_config(config.defaults(), commit="abc")
    found = tomllib.loads((folder.path / "config.toml").read_text())
    versions = found.pop("versions")
    assert config.flatten(found) == config.defaults()
    assert found["local"]["lr"] == config.defaults()["local.lr"]
    assert versions["commit"] == "abc"
    assert versions["torch"] == torch.__version__.partition("+")[0]


def test_rows_follow_one_header(folder):
    folder.row("sub/t.csv", {"round": 1, "name": 'a,"b"\nc'})
    folder.row("sub/t.csv", {"round": 2, "name": ""})
    with (folder.path / "sub/t.csv").open(newline="") as stream:
        assert list(csv.reader(stream)) == [
            ["round", "name"],
            ["1", 'a,"b"\nc'],
            ["2", ""],
        ]


def test_rows_end_alike_on_every_machine(folder):
    folder.row("t.csv", {"round": 1})
    assert (folder.path / "t.csv").read_bytes() == b"round\n1\n"


def test_progress_keeps_what_is_not_replaced(folder):
    folder.progress(round=1, phase="train")
    folder.progress(round=2)
    assert shown(folder) == {"status": "running", "round": 2, "phase": "train"}


def test_lazy_progress_is_not_written_at_once_but_not_lost(folder, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    folder.progress(done=0)
    folder.progress(lazily=True, done=1)
    assert shown(folder)["done"] == 0
    now += 0.21
    folder.progress(lazily=True, asked=9)
    assert (shown(folder)["done"], shown(folder)["asked"]) == (1, 9)


def test_tensors_text_and_json_are_written_under_the_folder(folder):
    folder.tensors("final/t.safetensors", {"x": {"w": torch.tensor([1.5])}})
    folder.text("a.txt", "ä")
    folder.json("b.json", {"c": [1]})
    file = TensorFile(folder.path / "final/t.safetensors")
    assert file.part("x")["w"].item() == 1.5
    assert (folder.path / "a.txt").read_text(encoding="utf-8") == "ä"
    assert json.loads((folder.path / "b.json").read_text()) == {"c": [1]}
