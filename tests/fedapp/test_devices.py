import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedapp.config import SettingsError
from fedapp.data.images import load_images
from fedapp.devices import (
    OwnData,
    agreed,
    check_id,
    data_path,
    describe,
    memory_folder,
    run_key,
    shareable,
)

DATA = OwnData(1, 8, 8, 10, "ab12")


@pytest.mark.parametrize("name", ["a", "7", "anna.b-c_d", "Zoë 2", "x" * 64, "a@b+c"])
def test_any_short_text_is_an_id(name):
    check_id(name)


@pytest.mark.parametrize(
    "name", ["", "a/b", "a\\b", "..", ".a", " a", "-a", "_a", "a\n", "x" * 65, "a:b"]
)
def test_an_id_that_is_no_folder_name_everywhere_is_refused(name):
    with pytest.raises(ValueError, match=r"client-id .* no slashes"):
        check_id(name)


@pytest.mark.parametrize("node", [{}, {"data-path": " "}])
def test_a_device_without_a_data_path_is_named_and_told_what_to_do(node):
    with pytest.raises(ValueError, match=r"device 'ben' has no data-path .*--node-"):
        data_path({"client-id": "ben", **node}, "ben")


def test_memory_lies_in_the_home_or_where_the_owner_says(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert memory_folder({}, "ben", "r-1") == tmp_path / ".fedapp/memory/r-1/ben"
    for given in ("~/here", str(tmp_path / "here")):
        found = memory_folder({"memory-path": given}, "ben", "r-1")
        assert found == tmp_path / "here/r-1/ben"


@pytest.mark.parametrize("key", ["", "..", "../x", "a/b", ".a", "a\n"])
def test_a_server_cannot_make_a_device_write_elsewhere(key):
    with pytest.raises(ValueError, match="not a folder name"):
        memory_folder({}, "ben", key)


def make_folders(root: Path, **counts: int) -> Path:
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for index in range(count):
            pixels = np.full((4, 6), 10 * index, np.uint8)
            Image.fromarray(pixels).save(root / name / f"{index}.png")
    return root


def described(root: Path, **counts: int) -> OwnData:
    images = load_images(
        "custom",
        path=str(make_folders(root, **counts)),
        image_column="",
        label_column="",
        client_column="",
        cache=root / ".cache",
    )
    return describe(images)


def test_a_device_tells_image_size_class_count_and_a_hash_of_class_names(tmp_path):
    found = described(tmp_path, cat=3, dog=2)
    assert found[:-1] == (1, 4, 6, 2)
    assert "cat" not in found.class_key
    assert len(found.class_key) == 8


def test_devices_with_other_class_names_differ(tmp_path):
    first = described(tmp_path / "a", cat=3, dog=2)
    assert described(tmp_path / "b", cat=1, dog=7) == first
    assert described(tmp_path / "c", cat=3, dogs=2) != first


def test_a_class_folder_without_images_is_a_class_all_the_same(tmp_path):
    full = described(tmp_path / "a", cat=3, dog=2, fish=1)
    assert described(tmp_path / "b", cat=3, dog=0, fish=1) == full
    images = load_images(
        "custom",
        path=str(tmp_path / "b"),
        image_column="",
        label_column="",
        client_column="",
        cache=tmp_path / "cache",
    )
    assert images.names == ("cat", "dog", "fish")
    assert sorted(images.labels.tolist()) == [0, 0, 0, 2]


def test_devices_that_agree_share_one_description():
    assert agreed({"a": DATA, "b": DATA}) == DATA


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"class_key": "cd34"}, "names cd34"),
        ({"height": 9}, "1x9x8 images"),
        ({"classes": 9}, "9 classes"),
    ],
)
def test_devices_that_differ_are_named_with_what_they_have(change, words):
    found = {"a": DATA, "b": DATA._replace(**change), "c": DATA}
    with pytest.raises(ValueError, match="different data") as caught:
        agreed(found)
    lines = str(caught.value).splitlines()[1:]
    assert lines[0].startswith("  'a', 'c': 1x8x8 images, 10 classes (names ab12)")
    assert lines[1].startswith("  'b': ")
    assert words in lines[1]


def test_a_device_that_said_nothing_of_its_data_is_named():
    with pytest.raises(ValueError, match="'b': nothing said"):
        agreed({"a": DATA, "b": None})


def test_errors_that_may_name_files_are_not_told():
    told = shareable(ValueError("/home/ben/secret/7.png: not a readable image"))
    assert told == "ValueError; the log of its SuperNode says more"
    assert shareable(OSError(2, "gone", "/home/ben")).startswith("FileNotFoundError;")


def test_errors_about_training_and_settings_are_told():
    told = shareable(FloatingPointError("the loss is nan; lower local.lr"))
    assert told == "FloatingPointError: the loss is nan; lower local.lr"
    assert "rounds.count" in shareable(SettingsError("rounds.count = 0: too few"))


def test_a_run_has_one_key_and_another_run_of_the_same_name_another(tmp_path):
    first = run_key(tmp_path, ["a", "b"], DATA)
    assert first.startswith(f"{tmp_path.name}-")
    assert run_key(tmp_path, ["a", "b"], DATA) == first
    about = json.loads((tmp_path / "devices.json").read_text())
    assert about == {"run-key": first, "clients": ["a", "b"], "data": DATA._asdict()}
    os.remove(tmp_path / "devices.json")
    assert run_key(tmp_path, ["a", "b"], DATA) != first


@pytest.mark.parametrize("name", ["a b/c", "-x", "ä" * 300, "..."])
def test_a_key_is_a_folder_name_whatever_the_run_is_called(tmp_path, name):
    folder = tmp_path / Path(name).name[:80]
    folder.mkdir(exist_ok=True)
    memory_folder({}, "ben", run_key(folder, ["a"], DATA))


def test_a_run_does_not_go_on_with_other_devices(tmp_path):
    run_key(tmp_path, ["a", "b"], DATA)
    with pytest.raises(ValueError, match=r"began with the devices a, b .*now there"):
        run_key(tmp_path, ["a", "c"], DATA)
    with pytest.raises(ValueError, match="began with"):
        run_key(tmp_path, ["a", "b"], DATA._replace(class_key="cd34"))
