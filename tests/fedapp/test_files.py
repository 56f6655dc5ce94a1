import json

import pytest
import torch
from safetensors.torch import save_file

from fedapp.files import (
    TensorFile,
    replacing,
    sha256,
    write_json,
    write_tensors,
    write_text,
)

PAYLOAD = {
    "model": {"w": torch.tensor([[1.5, -2.0]]), "steps": torch.tensor(2**40 + 1)},
    "model-2": {"empty": torch.zeros(0, 3), "mask": torch.tensor([True, False])},
    "m": {"a/b": torch.tensor([-7], dtype=torch.int32)},
}


def same(left, right):
    assert left.keys() == right.keys()
    for name, leaf in left.items():
        assert leaf.dtype == right[name].dtype, name
        assert leaf.shape == right[name].shape, name
        assert torch.equal(leaf, right[name]), name


def test_a_file_is_old_until_the_body_ends(tmp_path):
    path = tmp_path / "new-folder" / "a.txt"
    write_text(path, "old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent
    assert path.read_text() == "new"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("existed", [True, False])
def test_a_failing_body_leaves_everything_as_it_was(tmp_path, existed):
    path = tmp_path / "a.txt"
    if existed:
        write_text(path, "old")

    def fail():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"] * existed


def test_json_with_nan_is_refused_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"loss": 0.5})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(path, {"loss": float("nan")})
    assert json.loads(path.read_text()) == {"loss": 0.5}


def test_every_kind_of_tensor_comes_back(tmp_path):
    path = tmp_path / "t.safetensors"
    write_tensors(path, PAYLOAD, author="me")
    file = TensorFile(path)
    found = file.payload()
    assert found.keys() == PAYLOAD.keys()
    for part, tree in PAYLOAD.items():
        same(found[part], tree)
    assert file.notes["author"] == "me"


@pytest.mark.parametrize(
    "leaf",
    [
        torch.arange(6.0).reshape(2, 3).T,
        torch.ones(2, requires_grad=True),
        torch.ones(1).expand(3),
    ],
    ids=["transposed", "with-gradient", "expanded"],
)
def test_a_tensor_may_lie_in_memory_as_it_likes(tmp_path, leaf):
    write_tensors(tmp_path / "t", {"x": {"w": leaf}})
    same(TensorFile(tmp_path / "t").part("x"), {"w": leaf.detach()})


def test_tensors_that_share_memory_may_be_written(tmp_path):
    both = torch.arange(4.0)
    payload = {"x": {"all": both, "start": both[:2]}, "y": {"all": both}}
    write_tensors(tmp_path / "t", payload)
    found = TensorFile(tmp_path / "t").payload()
    same(found["x"], payload["x"])
    same(found["y"], payload["y"])


def test_nothing_at_all_comes_back_as_nothing(tmp_path):
    write_tensors(tmp_path / "t", {})
    assert TensorFile(tmp_path / "t").payload() == {}


def spoil(path, part, *, at=0):
    """Change one byte of a part."""
    whole = bytearray(path.read_bytes())
    whole[TensorFile(path).span(part)[0] + at] ^= 1
    path.write_bytes(whole)


def test_a_damaged_part_is_refused_by_name_and_the_others_are_read(tmp_path):
    path = tmp_path / "spoilt"
    write_tensors(path, PAYLOAD)
    spoil(path, "m")
    file = TensorFile(path)
    with pytest.raises(ValueError, match=r"/spoilt is damaged: its part 'm'"):
        file.part("m")
    same(file.part("model"), PAYLOAD["model"])
    with pytest.raises(ValueError, match="damaged"):
        file.payload()


@pytest.mark.parametrize("at", [0, 1000, 3999])
def test_one_changed_byte_anywhere_is_seen(tmp_path, at):
    write_tensors(tmp_path / "t", {"x": {"w": torch.arange(1000.0)}})
    spoil(tmp_path / "t", "x", at=at)
    with pytest.raises(ValueError, match="damaged"):
        TensorFile(tmp_path / "t").part("x")


def test_files_without_checksums_are_read_as_they_are(tmp_path):
    about = {"about": json.dumps({"version": 1, "author": "the first release"})}
    save_file({"x/w": torch.ones(2)}, tmp_path / "old", metadata=about)
    spoil(tmp_path / "old", "x")
    file = TensorFile(tmp_path / "old")
    assert file.part("x")["w"].tolist() != [1.0, 1.0]
    assert file.notes == {"author": "the first release"}


def test_a_file_cut_off_after_it_was_opened_is_refused(tmp_path):
    path = tmp_path / "t"
    write_tensors(path, PAYLOAD)
    file = TensorFile(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="/t cannot be read: it was cut off"):
        file.payload()
    path.unlink()
    with pytest.raises(ValueError, match="/t cannot be read"):
        file.part("model")


def test_a_span_holds_a_part_and_no_other(tmp_path):
    write_tensors(tmp_path / "t", PAYLOAD)
    file, whole = TensorFile(tmp_path / "t"), (tmp_path / "t").read_bytes()
    start, end = file.span("m")
    assert whole[start:end] == (-7).to_bytes(4, "little", signed=True)
    assert file.span("mod") == (0, 0)


def test_a_part_that_is_not_there_is_empty(tmp_path):
    write_tensors(tmp_path / "t", PAYLOAD)
    assert TensorFile(tmp_path / "t").part("mod") == {}


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_refused_by_name(tmp_path, kept):
    path = tmp_path / "cut.safetensors"
    write_tensors(path, PAYLOAD)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(ValueError, match=r"cut\.safetensors is not a whole"):
        TensorFile(path)


def test_a_file_that_is_not_there_or_text_is_refused_by_name(tmp_path):
    (tmp_path / "b").write_text("hello, this is text and no tensor file")
    for name in ("a", "b"):
        with pytest.raises(ValueError, match=rf"/{name} is not a whole tensor file"):
            TensorFile(tmp_path / name)


@pytest.mark.parametrize("notes", [None, {"version": "2"}, {"format": "pt"}])
def test_tensors_of_another_program_are_refused_by_name(tmp_path, notes):
    save_file({"model/w": torch.ones(1)}, tmp_path / "other", metadata=notes)
    with pytest.raises(ValueError, match="/other was not written by this"):
        TensorFile(tmp_path / "other")


def test_sha256_is_the_standard_one():
    # FIPS 180-2, appendix B.1.
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256("abc") == expected
