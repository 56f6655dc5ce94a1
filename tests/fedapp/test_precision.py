import torch

from fedapp.precision import to_half, to_single

PAYLOAD = {
    "encoder": {
        "w": torch.tensor([1.0, -0.1, 3e-5]),
        "bn.running_var": torch.tensor([1e-7, 2.0]),
        "bn.running_mean": torch.tensor([0.1]),
        "bn.num_batches_tracked": torch.tensor(70_000),
        "empty": torch.zeros(0),
        "long": torch.tensor([0.1], dtype=torch.float64),
    },
    "head": {"weight": torch.tensor([65504.0, -65504.0])},
}


def test_float32_tensors_take_half_the_room_and_others_stay():
    half, wide = to_half(PAYLOAD)
    kinds = {name: leaf.dtype for name, leaf in half["encoder"].items()}
    assert wide == []
    assert kinds == {
        "w": torch.float16,
        "bn.running_var": torch.float32,
        "bn.running_mean": torch.float32,
        "bn.num_batches_tracked": torch.int64,
        "empty": torch.float16,
        "long": torch.float64,
    }
    assert half["head"]["weight"].dtype == torch.float16
    assert (
        half["encoder"]["bn.running_var"].tolist() == torch.tensor([1e-7, 2]).tolist()
    )


def test_the_way_back_is_off_by_rounding_alone():
    half, _ = to_half(PAYLOAD)
    back = to_single(half["encoder"])
    assert {n: leaf.dtype for n, leaf in back.items()} == {
        n: leaf.dtype for n, leaf in PAYLOAD["encoder"].items()
    }
    # Half of the last of 11 bits, or of the smallest step.
    wanted = PAYLOAD["encoder"]["w"]
    error = (back["w"] - wanted).abs()
    assert bool(
        (error <= torch.maximum(wanted.abs() * 2**-11, torch.tensor(2.0**-25))).all()
    )
    assert bool((error > 0).any())


def test_values_beyond_the_range_keep_their_tensor_whole_and_are_named():
    for value in (65505.0, -65505.0, 1e30):
        tree = {"a": torch.tensor([1.0]), "b": torch.tensor([0.1, value])}
        half, wide = to_half({"encoder": tree})
        assert wide == ["encoder/b"]
        assert half["encoder"]["b"] is tree["b"]
        assert half["encoder"]["a"].dtype == torch.float16


def test_what_was_given_is_not_changed():
    tree = {"w": torch.tensor([0.1])}
    to_half({"x": tree})
    assert tree["w"].dtype == torch.float32
    same = to_single(tree)
    assert same["w"] is tree["w"]
