import pytest
import torch
from prototype_replies import memories

from fedapp.config import SettingsError, defaults
from fedapp.methods import METHODS, check_settings
from fedapp.model_mix import check_widths, dealt, in_words, width_of
from fedapp.models import MODELS, ImageShape, build, state_of

IMAGE = ImageShape(1, 8, 8)
MIX = "cnn-small, mlp,cnn"
THREE = {
    "model__mix": MIX,
    "model__projection": 24,
    "data__clients": 6,
    "rounds__count": 2,
}


def problems(**changes):
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    with pytest.raises(SettingsError) as caught:
        check_settings(defaults() | changed)
    return str(caught.value).splitlines()


def test_models_are_dealt_in_turn():
    got = [dealt(client, name="resnet18", mix=MIX) for client in range(4)]
    assert got == ["cnn-small", "mlp", "cnn", "cnn-small"]
    assert dealt(3, name="resnet18", mix=" ") == "resnet18"


@pytest.mark.parametrize("name", MODELS)
def test_the_width_of_an_embedding_is_that_of_the_built_model(name):
    image = ImageShape(3, 32, 32)
    built = build(name, image, 10, seed=0).head.in_features
    assert width_of(name, image, projection=0) == built
    assert width_of(name, image, projection=7) == 7


def test_a_projection_is_one_linear_layer_and_none_changes_no_bit():
    plain, projected = (
        state_of(build("mlp", IMAGE, 10, seed=3, projection=p)) for p in (0, 7)
    )
    assert projected["encoder.projection.weight"].shape == (7, 200)
    assert projected["head.weight"].shape == (10, 7)
    body = {n: v for n, v in projected.items() if n.startswith("encoder.body.")}
    assert len(body) == 4
    for name, leaf in body.items():
        assert torch.equal(leaf, plain[name.replace("encoder.body.", "encoder.")])
    again = state_of(build("mlp", IMAGE, 10, seed=3))
    assert all(torch.equal(plain[name], again[name]) for name in plain)


def test_widths_that_differ_are_refused_with_both_clients():
    check_widths(["a", "b"], ["mlp", "cnn"], IMAGE, projection=5)
    with pytest.raises(
        ValueError,
        match=r"client a \(mlp\) has 200 numbers, client c \(cnn\) 512; "
        r"set model\.projection",
    ):
        check_widths(["a", "b", "c"], ["mlp", "mlp", "cnn"], IMAGE, projection=0)


def test_who_has_which_in_words():
    assert in_words(["a", "b", "c"], ["mlp", "cnn", "mlp"]) == "mlp: a, c; cnn: b"


def test_an_unknown_model_in_a_mix_is_answered_with_the_closest():
    (problem,) = problems(method="fedproto", model__mix="mlp,cn")
    assert problem.startswith("model.mix = 'mlp,cn': there is no model 'cn'; did you")


@pytest.mark.parametrize(
    "method", [n for n, m in METHODS.items() if m.models == "same"]
)
def test_methods_that_send_models_refuse_a_mix(method):
    (problem,) = problems(method=method, model__mix="mlp,cnn")
    assert "needs the same model on every client; these do not: " in problem
    assert "fedproto" in problem


def test_sharing_the_encoder_refuses_a_mix():
    changed = {"method": "fedsap", "model.mix": "mlp,cnn"}
    check_settings(defaults() | changed)
    with pytest.raises(SettingsError, match="needs the same model"):
        check_settings(defaults() | changed | {"fedsap.share-encoder": True})


@pytest.mark.parametrize("method", ["fedproto", "fedsap"])
def test_three_models_in_one_federation(once, method):
    done = once(method, **THREE)
    models = memories(done)
    sizes = [model["encoder.projection.weight"].shape for model in models]
    assert [tuple(size) for size in sizes] == [(24, 64), (24, 200), (24, 512)] * 2
    state = done.tensors("final/state.safetensors")["prototypes"]
    assert state["values"].shape == (10, 24)
    assert done.summary["traffic_vs_fedavg"] is None
    assert done.summary["status"] == "completed"


def test_the_same_mix_gives_the_same_bits(once, run):
    assert once("fedsap", **THREE).bits() == run("fedsap", **THREE).bits()


def test_each_model_starts_from_the_seed_as_if_it_were_alone(once):
    mixed = once("local", model__mix=MIX, rounds__count=1)
    alone = once("local", model__name="mlp", rounds__count=1)
    one, other = memories(mixed)[1], memories(alone)[1]
    assert all(torch.equal(one[name], other[name]) for name in other)


def test_sizes_that_differ_end_the_run_before_it_starts(run):
    with pytest.raises(ValueError, match=r"client 0 \(cnn-small\) .* client 1 \(mlp\)"):
        run("fedproto", model__mix=MIX)


@pytest.mark.parametrize(("method", "share"), [("fedavg", 1.0), ("local", 0.0)])
def test_traffic_beside_that_of_fedavg(once, method, share):
    done = once(method, rounds__count=2, rounds__fraction=0.5)
    assert done.summary["traffic_vs_fedavg"] == share


def test_traffic_of_prototypes_beside_that_of_fedavg(once):
    proto, fedavg = (once(m, rounds__count=2).summary for m in ("fedproto", "fedavg"))
    ours, theirs = (
        s["traffic"]["down_bytes"] + s["traffic"]["up_bytes"] for s in (proto, fedavg)
    )
    assert proto["traffic_vs_fedavg"] == ours / theirs < 0.3
