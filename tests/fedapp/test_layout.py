"""Reading safetensors files; the library is the judge."""

import json

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fedapp.layout import DTYPES, read_bytes, read_layout, tensor_of

MIXED = {
    "one": torch.tensor([[1.5, -2.5], [3.5, 4.5]]),
    "none": torch.zeros(0, 3),
    "lone": torch.tensor(2**40 + 1),
    "flags": torch.tensor([True, False, True]),
}


def read(path):
    with path.open("rb") as stream:
        places, metadata = read_layout(stream)
        return {
            n: tensor_of(read_bytes(stream, p), p) for n, p in places.items()
        }, metadata


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_every_type_is_read_as_the_library_reads_it(tmp_path, dtype):
    leaf = torch.tensor([[0, 1, 1], [1, 0, 0]]).to(dtype)
    save_file({"w": leaf, "b": leaf[0].clone()}, tmp_path / "t", metadata={"a": "b"})
    found, metadata = read(tmp_path / "t")
    wanted = load_file(tmp_path / "t")
    assert metadata == {"a": "b"}
    assert found.keys() == wanted.keys()
    for name, leaf in found.items():
        assert (leaf.dtype, leaf.shape) == (dtype, wanted[name].shape)
        assert torch.equal(leaf, wanted[name])


def test_tensors_of_any_shape_come_back(tmp_path):
    save_file(MIXED, tmp_path / "t")
    found, metadata = read(tmp_path / "t")
    assert metadata == {}
    for name, leaf in MIXED.items():
        assert (found[name].dtype, found[name].shape) == (leaf.dtype, leaf.shape)
        assert torch.equal(found[name], leaf)


def test_what_is_read_is_ours_to_change(tmp_path):
    save_file(MIXED, tmp_path / "t")
    before = (tmp_path / "t").read_bytes()
    found, _ = read(tmp_path / "t")
    found["one"].zero_()
    assert (tmp_path / "t").read_bytes() == before


def written(path, header, data=b"12345678"):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def entry(start, end, dtype="F32", shape=None):
    shape = [(end - start) // 4] if shape is None else shape
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


WRONG = {
    "a gap": {"a": entry(0, 4)},
    "an overlap": {"a": entry(0, 8), "b": entry(4, 8)},
    "a start inside": {"a": entry(4, 8)},
    "a gap inside": {"a": entry(0, 2, "U8", [2]), "b": entry(4, 8)},
    "an overlap of the right length": {
        "a": entry(0, 4),
        "b": entry(0, 4),
    },
    "more than there is": {"a": entry(0, 12)},
    "another shape": {"a": entry(0, 8, shape=[3])},
    "a negative shape": {"a": entry(0, 8, shape=[-1, -2])},
    "a negative start": {"a": entry(-4, 4)},
    "an unknown type": {"a": entry(0, 8, dtype="F7")},
    "no shape": {"a": {"dtype": "F32", "data_offsets": [0, 8]}},
    "no table": {"a": 3},
    "a list": [1, 2],
    "no JSON": b"{'a': 1}",
    "no text": b"\xff\xfe{}",
}


@pytest.mark.parametrize("header", WRONG.values(), ids=WRONG)
def test_a_wrong_header_is_refused_as_by_the_library(tmp_path, header):
    written(tmp_path / "t", header)
    with pytest.raises(ValueError, match=r"\S"):
        read(tmp_path / "t")
    with pytest.raises(SafetensorError):
        load_file(tmp_path / "t")


@pytest.mark.parametrize("length", [0, 1, 10**6, 2**63])
def test_a_header_of_another_length_is_refused(tmp_path, length):
    text = b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'
    (tmp_path / "t").write_bytes(length.to_bytes(8, "little") + text + b"12345678")
    with pytest.raises(ValueError, match="cut off or none"):
        read(tmp_path / "t")


@pytest.mark.parametrize("size", [0, 5, 8])
def test_hardly_a_file_is_refused(tmp_path, size):
    (tmp_path / "t").write_bytes(b"\x10".ljust(size, b"\0")[:size])
    with pytest.raises(ValueError, match="cut off or none"):
        read(tmp_path / "t")


def test_a_longer_file_than_its_header_says_is_refused(tmp_path):
    written(tmp_path / "t", {"a": entry(0, 8)}, b"123456789")
    with pytest.raises(ValueError, match="bytes instead of"):
        read(tmp_path / "t")
