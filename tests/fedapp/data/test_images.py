"""Data sets: what is read, what is kept, and what is said when something is wrong."""

import concurrent.futures
import dataclasses
import io
import multiprocessing

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fedapp.data import images as image_sets
from fedapp.data.images import load_images, open_cached


def png(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def pictures(count, shape=(6, 6), seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, *shape), dtype=np.uint8)


def write(file, pixels, labels, *, image="image", label="label", **columns):
    data = {image: [{"bytes": png(p), "path": None} for p in pixels], label: labels}
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(data | columns), file)


def load(path, cache, name="custom", **columns):
    settings = {"image_column": "", "label_column": "", "client_column": ""}
    return load_images(name, path=str(path), cache=cache, **(settings | columns))


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def no_decoding(monkeypatch):
    def refuse(*_):
        raise AssertionError("decoded again")

    return lambda: monkeypatch.setattr(image_sets, "decode", refuse)


def test_digits_need_no_files(cache):
    digits = load("", cache, "digits")
    assert digits.images.shape == (1797, 1, 8, 8)
    assert digits.images.max() == 255
    assert np.bincount(digits.labels).tolist() == [
        178, 182, 177, 183, 181, 182, 181, 179, 174, 180,
    ]  # fmt: skip
    pixels = digits.images / 255
    assert digits.mean == (pytest.approx(pixels.mean(), abs=1e-4),)
    assert digits.std == (pytest.approx(pixels.std(), abs=1e-4),)


def test_a_folder_of_parquet_files_keeps_the_official_split(tmp_path, cache):
    train, test, more = pictures(4), pictures(2, seed=1), pictures(1, seed=2)
    write(tmp_path / "d/test-00000-of-00001.parquet", test, [1, 1])
    write(tmp_path / "d/train-00000-of-00002.parquet", train, [0, 2, 1, 0])
    write(tmp_path / "d/validation.parquet", more, [2])
    found = load(tmp_path / "d", cache)
    expected = np.concatenate([train, more, test])[:, None]
    assert np.array_equal(found.images, expected)
    assert found.labels.tolist() == [0, 2, 1, 0, 2, 1, 1]
    assert found.official_test.tolist() == [False] * 5 + [True] * 2
    assert (found.classes, found.owners, found.mean) == (3, None, (0.5,))


def test_hub_folders_with_data_inside_and_single_files_are_found(tmp_path, cache):
    write(tmp_path / "d/data/train-00000-of-00001.parquet", pictures(3), [0, 1, 1])
    inside = load(tmp_path / "d", cache)
    single = load(tmp_path / "d/data/train-00000-of-00001.parquet", cache)
    assert np.array_equal(inside.images, single.images)
    assert not single.official_test.any()


def test_colour_images_are_channels_first_and_grey_ones_join_them(tmp_path, cache):
    colour, grey = pictures(1, (5, 4, 3)), pictures(1, (5, 4))
    write(tmp_path / "a.parquet", [grey[0], colour[0]], [0, 1])
    found = load(tmp_path / "a.parquet", cache)
    assert found.images.shape == (2, 3, 5, 4)
    assert np.array_equal(found.images[1], colour[0].transpose(2, 0, 1))
    assert all(np.array_equal(channel, grey[0]) for channel in found.images[0])


def test_text_labels_and_owners_are_numbered_in_sorted_order(tmp_path, cache):
    owners = ["w9", "w1", None, "w9"]
    write(
        tmp_path / "a.parquet",
        pictures(4),
        ["dog", "cat", "eel", "cat"],
        image="photo",
        label="animal",
        who=owners,
    )
    found = load(
        tmp_path / "a.parquet",
        cache,
        image_column="photo",
        label_column="animal",
        client_column="who",
    )
    assert found.labels.tolist() == [1, 0, 2, 0]
    assert found.owners.tolist() == [1, 0, -1, 1]


def test_the_hubs_class_names_say_how_many_classes_there_are(tmp_path, cache):
    label = datasets.ClassLabel(num_classes=7)
    features = datasets.Features({"image": datasets.Image(), "label": label})
    rows = {"image": [{"bytes": png(p), "path": None} for p in pictures(3)]}
    rows["label"] = [0, 4, 2]
    made = datasets.Dataset.from_dict(rows, features=features)
    made.to_parquet(tmp_path / "a.parquet")
    assert load(tmp_path / "a.parquet", cache).classes == 7


def test_image_folders_are_classes_by_name(tmp_path, cache):
    colours = {"train/cat": 10, "train/ant": 20, "test/cat": 30}
    for folder, value in colours.items():
        (tmp_path / "d" / folder).mkdir(parents=True)
        file = tmp_path / "d" / folder / "1.png"
        file.write_bytes(png(np.full((4, 5), value, np.uint8)))
    (tmp_path / "d/train/cat/notes.txt").write_text("no image")
    found = load(tmp_path / "d", cache)
    assert found.images[:, 0, 0, 0].tolist() == [20, 10, 30]
    assert found.labels.tolist() == [0, 1, 1]
    assert found.official_test.tolist() == [False, False, True]


def test_image_folders_need_no_split(tmp_path, cache):
    for name in ("b", "a"):
        (tmp_path / "d" / name).mkdir(parents=True)
        (tmp_path / "d" / name / "x.jpg").write_bytes(png(pictures(1)[0]))
    found = load(tmp_path / "d", cache)
    assert found.labels.tolist() == [0, 1]
    assert not found.official_test.any()


def test_npz_archives_with_and_without_a_split(tmp_path, cache):
    x, z = pictures(3, (4, 4, 3)), pictures(2, (4, 4, 3), seed=1)
    np.savez(
        tmp_path / "a.npz", x_train=x, y_train=[[0], [1], [2]], x_test=z, y_test=[2, 0]
    )
    found = load(tmp_path / "a.npz", cache)
    assert np.array_equal(found.images, np.concatenate([x, z]).transpose(0, 3, 1, 2))
    assert found.labels.tolist() == [0, 1, 2, 2, 0]
    assert found.official_test.tolist() == [False] * 3 + [True] * 2
    np.savez(tmp_path / "b.npz", images=pictures(3), labels=["u", "v", "u"])
    assert load(tmp_path / "b.npz", cache).labels.tolist() == [0, 1, 0]


def test_pickled_archives_are_refused(tmp_path, cache):
    labels = np.array([0, {"run": "me"}], dtype=object)
    np.savez(tmp_path / "a.npz", images=pictures(2), labels=labels)
    with pytest.raises(ValueError, match="without pickled objects"):
        load(tmp_path / "a.npz", cache)


def test_a_data_set_is_decoded_once_and_mapped_read_only(tmp_path, cache, no_decoding):
    write(tmp_path / "a.parquet", pictures(3), [0, 1, 0])
    first = load(tmp_path / "a.parquet", cache)
    no_decoding()
    (tmp_path / "moved").mkdir()
    (tmp_path / "a.parquet").rename(tmp_path / "moved/b.parquet")
    again = load(tmp_path / "moved/b.parquet", cache)
    opened = open_cached(cache, first.key)
    assert isinstance(again.images, np.memmap)
    assert not again.images.flags.writeable
    assert np.array_equal(again.images, first.images)
    assert np.array_equal(opened.labels, [0, 1, 0])
    assert again.key == opened.key == first.key


def test_other_contents_columns_and_names_have_other_keys(tmp_path, cache):
    write(tmp_path / "a.parquet", pictures(3), [0, 1, 0], fine=[2, 1, 0])
    write(tmp_path / "b.parquet", pictures(3), [0, 1, 1], fine=[2, 1, 0])
    found = [
        load(tmp_path / "a.parquet", cache),
        load(tmp_path / "b.parquet", cache),
        load(tmp_path / "a.parquet", cache, label_column="fine"),
        load(tmp_path / "a.parquet", cache, name="mnist"),
    ]
    assert len({one.key for one in found}) == 4
    assert [one.labels.tolist() for one in found[:3]] == [
        [0, 1, 0],
        [0, 1, 1],
        [2, 1, 0],
    ]


@pytest.mark.parametrize(
    "broken", ["images.npy", "labels.npy", "official_test.npy", "about.json"]
)
def test_a_truncated_entry_is_built_anew(tmp_path, cache, broken):
    write(tmp_path / "a.parquet", pictures(9), [0, 1, 0] * 3)
    first = load(tmp_path / "a.parquet", cache)
    file = cache / first.key / broken
    whole = file.read_bytes()
    file.unlink()
    file.write_bytes(whole[:-7])
    with pytest.raises(ValueError, match=f"no decoded data set {first.key}"):
        open_cached(cache, first.key)
    again = load(tmp_path / "a.parquet", cache)
    assert file.read_bytes() == whole
    assert np.array_equal(again.images[:, 0], pictures(9))


def test_nothing_but_the_entry_is_left_in_the_cache(tmp_path, cache):
    write(tmp_path / "a.parquet", pictures(3), [0, 1, 0], who=[1, 2, 2])
    found = load(tmp_path / "a.parquet", cache, client_column="who")
    names = {file.name for file in (cache / found.key).iterdir()}
    arrays = {"images.npy", "labels.npy", "owners.npy", "official_test.npy"}
    assert names == {*arrays, "about.json"}
    assert [file.name for file in cache.iterdir()] == [found.key]


def _load_key(path, cache):
    return load(path, cache).key


def test_two_processes_may_build_one_entry_at_once(tmp_path, cache):
    write(tmp_path / "a.parquet", pictures(200), [0, 1] * 100)
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(4, mp_context=context) as pool:
        keys = list(pool.map(_load_key, [tmp_path / "a.parquet"] * 8, [cache] * 8))
    assert len(set(keys)) == 1
    assert np.array_equal(open_cached(cache, keys[0]).images[:, 0], pictures(200))


def test_a_corrupt_image_is_named_by_file_and_row(tmp_path, cache):
    good = [{"bytes": png(p), "path": None} for p in pictures(3)]
    good[2]["bytes"] = good[2]["bytes"][:40]
    table = pa.table({"image": good, "label": [0, 1, 0]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet, row 2: not a readable image"):
        load(tmp_path / "a.parquet", cache)


def test_a_corrupt_file_in_an_image_folder_is_named(tmp_path, cache):
    (tmp_path / "d/cat").mkdir(parents=True)
    (tmp_path / "d/cat/7.png").write_bytes(b"not a png")
    with pytest.raises(ValueError, match=r"cat/7\.png: not a readable image"):
        load(tmp_path / "d", cache)


def test_images_of_two_sizes_are_refused(tmp_path, cache):
    write(tmp_path / "a.parquet", [pictures(1)[0], pictures(1, (6, 7))[0]], [0, 1])
    with pytest.raises(
        ValueError, match="row 1: image of 6x7 pixels after some of 6x6"
    ):
        load(tmp_path / "a.parquet", cache)


def test_sixteen_bit_images_are_refused(tmp_path, cache):
    write(tmp_path / "a.parquet", [np.full((4, 4), 5000, np.uint16)], [0])
    with pytest.raises(ValueError, match="only 8-bit images"):
        load(tmp_path / "a.parquet", cache)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"image_column": "img"},
            "no column 'img'; it has image, label: set data.image",
        ),
        ({"label_column": "y"}, "no column 'y'; it has image, label: set data.label"),
        ({"client_column": "id"}, "no column 'id'; .* set data.client-column"),
        ({"image_column": "label"}, "holds int64, not encoded images"),
    ],
)
def test_a_missing_column_is_named_with_its_setting(tmp_path, cache, columns, message):
    write(tmp_path / "a.parquet", pictures(2), [0, 1])
    with pytest.raises(ValueError, match=rf"a\.parquet.*{message}"):
        load(tmp_path / "a.parquet", cache, **columns)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, -1], r"sample 2 has label -1, outside 0\.\.1"),
        ([0, 1, 3], "labels run to 3 with only 3 samples"),
        ([0.0, 1.0, 2.0], r"row 0: label 0\.0 in column 'label' is neither"),
        ([0, None, 1], "row 1: label None"),
    ],
)
def test_wrong_labels_are_named(tmp_path, cache, labels, message):
    write(tmp_path / "a.parquet", pictures(3), labels)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "a.parquet", cache)


def test_paths_that_hold_nothing_are_named(tmp_path, cache):
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(ValueError, match="'/nowhere' does not exist"):
        load("/nowhere", cache)
    for name in ("empty", "x.txt"):
        with pytest.raises(ValueError, match=f"{name}' holds no data; it may be"):
            load(tmp_path / name, cache)


def test_files_that_are_not_what_they_say_are_named(tmp_path, cache):
    for name in ("a.parquet", "a.npz"):
        (tmp_path / name).write_bytes(b"something else")
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            load(tmp_path / name, cache)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": [1], "b": [2]}, "has a, b; it needs images and labels"),
        ({"images": np.zeros((2, 4, 4)), "labels": [0, 1]}, "float64 array of shape"),
        ({"images": pictures(2), "labels": [0]}, "1 labels of type int64 for 2 images"),
        ({"images": pictures(2), "labels": [0.0, 1.0]}, "labels of type float64"),
        ({"images": pictures(2, (4, 4, 4)), "labels": [0, 1]}, "need 1 or 3 channels"),
    ],
)
def test_wrong_archives_are_explained(tmp_path, cache, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=rf"a\.npz.*{message}"):
        load(tmp_path / "a.npz", cache)


def test_a_client_column_without_columns_is_refused(tmp_path, cache):
    np.savez(tmp_path / "a.npz", images=pictures(2), labels=[0, 1])
    with pytest.raises(ValueError, match=r"client-column = 'who' needs parquet"):
        load(tmp_path / "a.npz", cache, client_column="who")


def test_unknown_names_and_custom_without_path_are_refused(cache):
    with pytest.raises(ValueError, match="'mnst'; use one of digits, mnist"):
        load("", cache, "mnst")
    with pytest.raises(ValueError, match=r"'custom' needs data\.path"):
        load("", cache)


def test_without_network_the_error_says_to_give_a_path(cache, monkeypatch):
    def offline(name):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(ValueError, match=r"ylecun/mnist could not .*set data\.path"):
        load("", cache, "mnist")


def test_a_hub_data_set_is_fetched_once(tmp_path, cache, monkeypatch):
    calls, load_dataset = [], datasets.load_dataset
    for split, labels in (("train", [0, 1, 2]), ("test", [2, 2, 0])):
        write(tmp_path / f"{split}.parquet", pictures(3), labels)
    files = {split: str(tmp_path / f"{split}.parquet") for split in ("train", "test")}

    def fetch(name):
        calls.append(name)
        return load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "hf"))

    monkeypatch.setattr(datasets, "load_dataset", fetch)
    found = [load("", cache, "mnist") for _ in range(2)]
    assert calls == ["ylecun/mnist"]
    assert found[1].labels.tolist() == [0, 1, 2, 2, 2, 0]
    assert found[1].official_test.sum() == 3


def test_other_normalisation_constants_are_another_entry(tmp_path, monkeypatch):
    def digits():
        return image_sets.load_images(
            "digits",
            path="",
            image_column="",
            label_column="",
            client_column="",
            cache=tmp_path,
        )

    before = digits()
    row = dataclasses.replace(image_sets.DATASETS["digits"], std=(0.5,))
    monkeypatch.setitem(image_sets.DATASETS, "digits", row)
    after = digits()
    assert (before.std, after.std) == ((0.3759,), (0.5,))
    assert before.key != after.key
