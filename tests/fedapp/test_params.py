import pytest
import torch

from fedapp.params import (
    WeightedMean,
    add_scaled,
    first_non_finite,
    join,
    num_bytes,
    select,
    subtract,
    tree_map,
    weighted_mean,
)


def tree(*values: float, counter: int = 0) -> dict[str, torch.Tensor]:
    return {
        "w": torch.tensor([float(v) for v in values]),
        "num_batches_tracked": torch.tensor(counter),
    }


def test_mean_is_weighted_and_counters_take_the_maximum():
    mean = weighted_mean([tree(1, 2, counter=5), tree(3, 6, counter=9)], [10, 30])
    assert mean["w"].tolist() == [2.5, 5.0]
    assert mean["num_batches_tracked"].item() == 9
    assert mean["num_batches_tracked"].dtype == torch.int64
    assert mean["w"].dtype == torch.float32


def test_scaling_all_weights_changes_nothing_but_rounding():
    trees = [tree(0.1, -7.3), tree(2.9, 0.4), tree(-1.1, 5.5)]
    one = weighted_mean(trees, [1, 2, 5])
    other = weighted_mean(trees, [100, 200, 500])
    torch.testing.assert_close(one["w"], other["w"], rtol=1e-6, atol=0)


def test_a_tree_of_weight_zero_changes_no_bit_even_if_it_is_nan():
    trees = [tree(0.1, -7.3), tree(2.9, 0.4)]
    with_nan = weighted_mean([*trees, tree(float("nan"), 1)], [3, 4, 0])
    assert torch.equal(weighted_mean(trees, [3, 4])["w"], with_nan["w"])


def test_sums_run_in_float64():
    # In float32, 2**24 + 1 is 2**24: one in three would vanish.
    trees = [tree(2.0**24), tree(1.0), tree(-(2.0**24))]
    assert weighted_mean(trees, [1, 1, 1])["w"].item() == pytest.approx(1 / 3)


def test_adding_does_not_change_the_trees_added():
    first, second = tree(1.0), tree(3.0)
    mean = WeightedMean()
    mean.add(first, 1)
    mean.add(second, 1)
    assert mean.value()["w"].item() == 2.0
    assert (first["w"].item(), second["w"].item()) == (1.0, 3.0)


def test_a_mean_of_nothing_is_refused():
    with pytest.raises(ValueError, match="positive weight"):
        weighted_mean([tree(1.0)], [0])


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_bad_weights_are_refused(weight):
    with pytest.raises(ValueError, match="weight"):
        WeightedMean().add(tree(1.0), weight)


def test_trees_with_other_names_are_refused_by_name():
    with pytest.raises(ValueError, match="bias"):
        tree_map(torch.add, {"w": torch.ones(1)}, {"bias": torch.ones(1)})


def test_steps_point_downhill_and_leave_counters():
    step = subtract({"w": torch.tensor([1.0])}, {"w": torch.tensor([4.0])})
    moved = add_scaled(tree(5.0, counter=3), 0.5, tree(-3.0, counter=8))
    assert step["w"].item() == -3.0
    assert (moved["w"].item(), moved["num_batches_tracked"].item()) == (3.5, 3)


def test_parts_of_a_model_come_apart_and_together():
    model = {"encoder.0.w": torch.ones(1), "head.w": torch.zeros(1)}
    parts = {name: select(model, name) for name in ("encoder", "head")}
    assert list(parts["encoder"]) == ["0.w"]
    assert join(**parts).keys() == model.keys()


def test_bytes_and_the_first_bad_tensor():
    payload = {"model": tree(1.0, 2.0), "x": {"a": torch.tensor([1.0, float("inf")])}}
    assert num_bytes(payload) == 2 * 4 + 8 + 2 * 4
    assert first_non_finite(payload) == "x/a"
    assert first_non_finite({"model": tree(1.0)}) is None


def test_the_order_of_sums_is_the_order_given():
    # The base sorts replies by client, so any order of arrival gives the same bits;
    # here, that the sum is a plain running one and hides no other order.
    generator = torch.Generator().manual_seed(0)
    leaves = [torch.randn(50, generator=generator) for _ in range(5)]
    total = torch.zeros(50, dtype=torch.float64)
    for weight, leaf in zip((3, 1, 4, 1, 5), leaves, strict=True):
        total += leaf.double() * weight
    mean = weighted_mean([{"w": leaf} for leaf in leaves], [3, 1, 4, 1, 5])
    assert torch.equal(mean["w"], (total / 14).float())
