"""A look at data sets, whole and broken."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fedapp.config import DataSettings, defaults
from fedapp.doctor.gather import is_decoded
from fedapp.doctor.images import Look, check_data, look
from fedapp.models import ImageShape


def png(width: int = 5) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((4, width, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


def settings(path: Path | str, **changes: object) -> DataSettings:
    own = {k.partition(".")[2]: v for k, v in defaults().items() if k[:5] == "data."}
    return DataSettings.model_validate(
        {**own, "name": "custom", "path": str(path), **changes}
    )


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    for name, count in (("train", 7), ("test", 3)):
        images = [{"bytes": png(), "path": None}] * count
        labels = [index % 2 for index in range(count)]
        table = pa.table({"image": images, "label": labels})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path


def test_digits_are_built_in(tmp_path):
    assert look(settings(tmp_path, name="digits"), tmp_path).samples == 1797


def test_parquet_files(parquet):
    found = look(settings(parquet), parquet)

    assert found == Look(10, 3, ImageShape(3, 4, 5), 2)
    finding = check_data(settings(parquet), found)
    assert finding.fact == "custom: 10 images of 3x4x5, 2 classes"


def test_image_folders(tmp_path):
    for name in ("cat", "dog", "eel"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.png").write_bytes(png(9))

    found = look(settings(tmp_path), tmp_path)

    assert found == Look(3, 0, ImageShape(3, 4, 9), 3)


def test_an_archive(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, images=np.zeros((6, 8, 9), np.uint8), labels=np.arange(6) % 3)

    assert look(settings(file), tmp_path) == Look(6, 0, ImageShape(1, 8, 9), 3)


def test_a_truncated_file_is_named(parquet):
    file = parquet / "test.parquet"
    file.write_bytes(file.read_bytes()[:-9])

    with pytest.raises(ValueError, match=r"test\.parquet cannot be read as parquet"):
        look(settings(parquet), parquet)


def test_no_rows(tmp_path):
    empty = pa.table(
        {"image": pa.array([], pa.binary()), "label": pa.array([], "int64")}
    )
    pq.write_table(empty, tmp_path / "train.parquet")

    with pytest.raises(ValueError, match=r"train\.parquet has no rows"):
        look(settings(tmp_path), tmp_path)


def test_classes_are_counted_as_a_run_counts_them(parquet):
    # 0 and 1 only, but a description that names five.
    features = {"label": {"names": list("abcde"), "_type": "ClassLabel"}}
    about = json.dumps({"info": {"features": features}}).encode()
    for file in parquet.glob("*.parquet"):
        table = pq.read_table(file).replace_schema_metadata({b"huggingface": about})
        pq.write_table(table, file)

    assert look(settings(parquet), parquet).classes == 5


def test_a_wrong_column_is_named(parquet):
    with pytest.raises(ValueError, match=r"set data\.label-column"):
        look(settings(parquet, **{"label-column": "digit"}), parquet)


def test_a_data_set_of_the_hub_is_yet_to_be_fetched(tmp_path):
    data = settings("", name="mnist")

    assert look(data, tmp_path) is None
    assert check_data(data, None).level == "warning"


def test_a_missing_official_split_is_a_problem(parquet):
    found = Look(10, 0, ImageShape(3, 4, 5), 2)

    assert check_data(settings(parquet), found).level == "ok"
    data = settings(parquet, **{"official-split": True})
    assert check_data(data, found).level == "problem"


def test_what_is_decoded_is_told_from_the_cache(tmp_path):
    (tmp_path / "mnist-abc").mkdir()
    (tmp_path / "mnist-abc" / "about.json").write_text(
        json.dumps({"shape": [9, 1, 2, 3]})
    )

    assert is_decoded(tmp_path, "mnist", (9, 1, 2, 3))
    assert not is_decoded(tmp_path, "mnist", (8, 1, 2, 3))
    assert not is_decoded(tmp_path, "digits", (9, 1, 2, 3))
