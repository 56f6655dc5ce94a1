import pytest
import torch
from conftest import line_model, line_task

from fedapp.data.samples import Samples
from fedapp.mixing import learn, mix, next_weights, settled

OLD, NEW = {"head.weight": torch.ones(1, 1)}, {"head.weight": torch.full((1, 1), 3.0)}


def trace(weight: float, *, lr: float, passes: int) -> list[tuple[float, float]]:
    """Return weight and mixture after each pass over the point (1, 1.5)."""
    found, weights = [], {"head.weight": torch.full((1, 1), weight)}
    for _ in range(passes):
        task = line_task([(1.0, 1.5)], model=line_model(head=3.0))
        weights = learn(task, OLD, weights, task.labelled, lr=lr, passes=1)
        mixture = task.model.head.weight.item()
        found.append((weights["head.weight"].item(), mixture))
    return found


def count_losses(points, *, batch_size=1, lr=1.0, passes=100):
    """Return how often the loss was computed, and the weight learned."""
    seen = []

    def loss(output, target):
        seen.append(((output[:, 0] - target) ** 2).mean() / 2)
        return seen[-1]

    model = line_model(head=3.0)
    task = line_task(points, model=model, loss=loss, batch_size=batch_size)
    ones = {"head.weight": torch.ones(1, 1)}
    weights = learn(task, OLD, ones, task.labelled, lr=lr, passes=passes)
    return len(seen), weights["head.weight"].item()


def test_passes_by_hand():
    # Gradient (mixture - 1.5), times (3 - 1), times .1.
    found = trace(1.0, lr=0.1, passes=3)
    assert found == [
        pytest.approx(p) for p in [(0.7, 2.4), (0.52, 2.04), (0.412, 1.824)]
    ]


def test_small_steps_come_to_the_best_mixture():
    assert trace(1.0, lr=0.1, passes=60)[-1] == pytest.approx((0.25, 1.5))


def test_clipped_steps_go_to_and_fro():
    assert trace(1.0, lr=1.0, passes=3) == [(0.0, 1.0), (1.0, 3.0), (0.0, 1.0)]


def test_a_weight_of_one_is_the_new_value_and_of_zero_the_old_bit_for_bit():
    generator = torch.Generator().manual_seed(0)
    old, new = ({"w": torch.randn(1000, generator=generator)} for _ in range(2))
    ones, zeros = {"w": torch.ones(1000)}, {"w": torch.zeros(1000)}
    assert torch.equal(mix(old, new, ones)["w"], new["w"])
    assert torch.equal(mix(old, new, zeros)["w"], old["w"])
    half = {"w": torch.full((1000,), 0.5)}
    torch.testing.assert_close(mix(old, new, half)["w"], (old["w"] + new["w"]) / 2)


def test_each_weight_has_its_own_step_and_bounds():
    tree = [[0.5, 0.5, 0.5], [3.0, -3.0, 0.2], [1.0, 1.0, 1.0], [3.0, 3.0, 0.0]]
    weights, gradient, old, new = ({"w": torch.tensor(row)} for row in tree)
    after = next_weights(weights, gradient, old, new, lr=0.1)
    # .5 - .6 and .5 + .6 are clipped; .5 - .1 * .2 * (0 - 1).
    assert after["w"].tolist() == pytest.approx([0.0, 1.0, 0.52])


def test_losses_have_settled_when_the_last_ten_hardly_differ():
    assert settled([9.0, 5.0] + [1.0] * 10)
    assert not settled([1.0] * 9)
    assert not settled([5.0] + [1.0] * 9)
    # The deviation of five zeros and five ones, times .19, is .095; times .21, .105.
    assert settled([0.0, 0.19] * 5)
    assert not settled([0.0, 0.21] * 5)


def test_learning_ends_when_losses_have_settled_or_after_its_passes():
    assert count_losses([(1.0, 1.5)], lr=0.0)[0] == 10
    assert count_losses([(1.0, 1.5)], passes=1)[0] == 1
    # To and fro between losses of .125 and 1.125: never settled.
    assert count_losses([(1.0, 1.5)]) == (100, 1.0)


def test_a_pass_is_judged_by_all_its_batches():
    # The last batch has x = 0: its loss is the same whatever the weights are.
    passes = count_losses([(1.0, 1.5), (0.0, 1.0)])[0] / 2
    assert passes == 100


@pytest.mark.parametrize("points", [[(1.0, float("nan"))], [(1.0, float("inf"))]])
def test_learning_ends_before_a_step_that_is_not_finite(points):
    assert count_losses(points) == (1, 1.0)


def test_only_mixed_parameters_and_no_buffers_move():
    model = torch.nn.Module()
    model.encoder = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    model.head = torch.nn.Linear(3, 2)
    model.forward = lambda x: model.head(model.encoder(x))
    model.eval()
    before = {name: leaf.clone() for name, leaf in model.state_dict().items()}
    task = line_task([(1.0, 1.0)], model=line_model(), batch_size=2)
    task = task.__class__(
        **{**task.__dict__, "model": model, "loss": torch.nn.functional.cross_entropy}
    )
    names = ["head.weight", "head.bias"]
    old = {name: torch.zeros_like(before[name]) for name in names}
    ones = {name: torch.ones_like(before[name]) for name in names}
    samples = Samples(torch.randn(6, 2), torch.tensor([0, 1, 0, 1, 0, 1]))
    learn(task, old, ones, samples, lr=0.5, passes=3)
    after = model.state_dict()
    for name, leaf in before.items():
        assert torch.equal(after[name], leaf) == (name not in names), name
