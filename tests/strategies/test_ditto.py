import pytest
import torch
from conftest import line_model, line_task

from client_apps.ditto import LocalDitto, pull
from fedapp.algorithm import local_sgd
from fedapp.models import state_of


def personal(lam, *, epochs, lr=0.1):
    """Return v after ``epochs`` steps: F(v) = (v - 1)^2 / 2, w = 0, v_0 = 2."""
    task = line_task([(1.0, 1.0)], model=line_model(encoder=2.0), lr=lr)
    anchor = state_of(line_model(encoder=0.0))
    local_sgd(task, part="encoder", epochs=epochs, penalty=pull(task, anchor, lam))
    return task.model.encoder.weight.item()


@pytest.mark.parametrize(
    ("lam", "expected"),
    [(0.0, (1.9, 1.81, 1.729)), (0.5, (1.8, 1.63, 1.4855)), (1.0, (1.7, 1.46, 1.268))],
)
def test_three_steps_by_hand(lam, expected):
    # The head is 1, as in w and v, and is not pulled: (1 - 1) = 0.
    found = [personal(lam, epochs=count) for count in (1, 2, 3)]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(("lam", "expected"), [(0, 1.0), (0.5, 2 / 3), (1, 0.5)])
def test_the_fixed_point_is_one_over_one_plus_lam(lam, expected):
    assert personal(lam, epochs=150) == pytest.approx(expected, abs=1e-5)


def test_the_pull_is_towards_the_model_as_it_was_received():
    # Trained models must not become the anchor: with lam = 9 and rate 0.1 the step
    # (v - w) * 0.9 brings v to w = 3 but for the gradient of F.
    start = line_model(encoder=3.0)
    task = line_task([(1.0, 1.0)], model=start, received={"model": state_of(start)})
    memory = {"model": state_of(line_model(encoder=5.0))}
    _, memory = LocalDitto(lam=9.0, personal_epochs=1).train(task, memory)
    # F' = (5 - 1) * 1 in the encoder.
    assert memory["model"]["encoder.weight"].item() == pytest.approx(
        5 - 0.1 * (4 + 9 * (5 - 3))
    )


def test_a_client_that_never_trained_is_scored_with_the_global_model():
    received = {"model": state_of(line_model(encoder=4.0))}
    task = line_task([(1.0, 1.0)], received=received)
    found = [
        (name, predictor(torch.ones(1, 1)).item())
        for name, predictor in LocalDitto(lam=1.0, personal_epochs=0).predictors(
            task, {}
        )
    ]
    assert found == [("personal", 4.0), ("global", 4.0)]


@pytest.mark.parametrize("lam", [0.0, 1.0, 50.0])
def test_the_global_trajectory_is_fedavgs_bit_for_bit(run, lam):
    settings = {"rounds__fraction": 0.5, "rounds__count": 3, "local__lr": 0.01}
    ditto, fedavg = run("ditto", **settings, ditto__lam=lam), run("fedavg", **settings)
    final = "final/params.safetensors"
    assert ditto.bits()[final] == fedavg.bits()[final]
    for way in ("down_bytes", "up_bytes"):
        assert ditto.summary["traffic"][way] == fedavg.summary["traffic"][way]


def test_without_pull_personal_models_are_local_ones_bit_for_bit(run):
    settings = {"rounds__fraction": 0.5, "rounds__count": 3}
    ditto, alone = run("ditto", **settings, ditto__lam=0.0), run("local", **settings)
    memories = [
        {k: v for k, v in done.bits().items() if k.startswith("memory")}
        for done in (ditto, alone)
    ]
    assert memories[0] == memories[1]
    assert len(memories[0]) >= 4


def test_personal_batch_norm_has_statistics_of_its_own_and_is_not_pulled():
    from fedapp.data.samples import Samples
    from fedapp.models import ImageShape, build

    model = build("resnet18", ImageShape(1, 8, 8), 2, seed=0)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4, 1, 8, 8, generator=generator) + 3
    task = line_task([(0.0, 0.0)], model=model, received={"model": state_of(model)})
    task = type(task)(
        **{
            **vars(task),
            "labelled": Samples(images, torch.tensor([0, 1, 0, 1])),
            "classes": 2,
            "batch_size": 4,
            "loss": torch.nn.functional.cross_entropy,
        }
    )
    update, memory = LocalDitto(lam=1e3, personal_epochs=2).train(task, {})
    mean = "encoder.bn1.running_mean"
    assert not torch.equal(memory["model"][mean], task.initial[mean])
    assert not torch.equal(memory["model"][mean], update.sent["model"][mean])
