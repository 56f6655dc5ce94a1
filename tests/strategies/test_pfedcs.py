import json
import re
import shutil
from dataclasses import replace

import pytest
import torch
from conftest import line_task
from torch import nn
from torch.nn import functional

from client_apps.fedper import LocalFedPer
from client_apps.pfedcs import LocalPFedCS, divergence
from fedapp.algorithm import Update
from fedapp.config import defaults
from fedapp.data.samples import Samples
from fedapp.inline import run_inline
from fedapp.models import Classifier, state_of
from fedapp.params import select
from fedapp.run_folder import read_config
from strategies.pfedcs import PFedCS

HEADS = {0: [0.0, 0.0], 1: [1.0, 0.0], 2: [0.0, 2.0], 3: [3.0, 3.0]}
BIASES = {0: 50.0, 1: 10.0, 2: 20.0, 3: 30.0}
COUNTS = {0: 10, 1: 20, 2: 30, 3: 40}
INITIAL = {
    "encoder.w": torch.zeros(1),
    "head.weight": torch.tensor([[7.0, 8.0]]),
    "head.bias": torch.tensor([9.0]),
}


def strategy(**changes) -> PFedCS:
    return PFedCS(**{"first_stage": 10, "similarity": 0.5, **changes})


def updates(clients=(0, 1, 2, 3)) -> list[Update]:
    return [
        Update(
            {
                "encoder": {"w": torch.tensor([float(k)])},
                "head": {
                    "weight": torch.tensor([HEADS[k]]),
                    "bias": torch.tensor([BIASES[k]]),
                },
            },
            COUNTS[k],
            client=k,
        )
        for k in clients
    ]


def after_a_round(rule, make_turn, clients=(0, 1, 2, 3)):
    """Return params and state after these clients took part in round 1."""
    turn = make_turn(round=1, sampled=clients)
    params, state = rule.update(*rule.init(INITIAL), updates(clients), turn)
    turn.bank.commit(1)
    return params, state


def sent(rule, params, state, turn):
    return {task.client: task.payload for task in rule.tasks(params, state, turn)}


def test_a_teacher_by_hand(make_turn):
    rule = strategy()
    params, state = after_a_round(rule, make_turn)
    teacher = sent(rule, params, state, make_turn(round=5))[0]["head"]
    # Client 0 learns from 1 and 2, at 1/18 and 4/18 of its farthest distance; it is
    # at 0 itself: m = 3, the maximum is 4/18, the mean 5/54.
    biases = torch.tensor([BIASES[1], BIASES[2], BIASES[0]])
    spread = 3 * (4 / 18 - 5 / 54)
    close = torch.tensor([3 / 18, 0.0, 4 / 18]) / spread
    weights = 0.5 * close + 0.5 * torch.tensor([20.0, 30.0, 10.0]) / 60
    assert weights.tolist() == pytest.approx([0.380952, 0.25, 0.369048], abs=1e-6)
    expected = torch.tensor([[weights[0], 2 * weights[1]]])
    torch.testing.assert_close(teacher["weight"], expected)
    torch.testing.assert_close(teacher["bias"], (weights @ biases)[None])


def test_the_encoder_is_fedpers_mean_and_heads_are_not_averaged(make_turn):
    params, state = after_a_round(strategy(), make_turn)
    assert params["w"].item() == pytest.approx((20 + 60 + 120) / 100)
    assert torch.equal(state["initial-head"]["weight"], INITIAL["head.weight"])


def test_nobody_has_a_teacher_in_the_first_round(make_turn):
    rule = strategy()
    heads = sent(rule, *rule.init(INITIAL), make_turn(round=1))
    assert len(heads) == 4
    assert all(
        torch.equal(p["head"]["weight"], INITIAL["head.weight"]) for p in heads.values()
    )


def test_clients_not_seen_so_far_are_no_peers_and_get_the_initial_head(make_turn):
    rule = strategy()
    params, state = after_a_round(rule, make_turn, clients=(0, 3))
    heads = {
        k: payload["head"]["weight"]
        for k, payload in sent(rule, params, state, make_turn(round=2)).items()
    }
    assert torch.equal(heads[1], INITIAL["head.weight"])
    # The only peer is the farthest and the nearest: 0 and 3 share by size and place.
    one = 0.5 * 0 + 0.5 * 40 / 50
    torch.testing.assert_close(heads[0], one * torch.tensor([HEADS[3]]))


def test_a_client_alone_gets_its_own_head(make_turn):
    rule = strategy()
    params, state = after_a_round(rule, make_turn, clients=(2,))
    teacher = sent(rule, params, state, make_turn(round=2))[2]["head"]
    assert teacher["weight"].tolist() == [HEADS[2]]
    assert teacher["bias"].tolist() == [BIASES[2]]


@pytest.mark.parametrize(
    ("first_stage", "rounds", "last"), [(0, 10, 5), (0, 5, 2), (3, 10, 3), (0, 1, 0)]
)
def test_how_long_the_first_stage_is(make_turn, first_stage, rounds, last):
    rule = strategy(first_stage=first_stage)
    params, state = rule.init(INITIAL)
    for round_ in range(1, rounds + 1):
        turn = make_turn(round=round_, rounds=rounds)
        parts = {"encoder", "head"} if round_ <= last else {"encoder"}
        assert rule.expects(params, state, turn).keys() == parts
        assert sent(rule, params, state, turn)[0].keys() == parts


def test_evaluation_gets_the_encoder_in_both_stages(make_turn):
    rule = strategy()
    params, state = rule.init(INITIAL)
    for round_ in (1, 11):
        (task,) = rule.personal(params, state, [0], make_turn(round=round_))
        assert task.payload.keys() == {"encoder"}


def test_the_divergence_is_the_students_from_the_teacher():
    teacher, student = torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0]])
    kl, reverse = divergence(teacher, student), divergence(student, teacher)
    entropy = functional.cross_entropy(student, torch.tensor([0]))
    assert kl.item() == pytest.approx(0.098886, abs=1e-6)
    assert reverse.item() == pytest.approx(0.111983, abs=1e-6)
    assert entropy.item() == pytest.approx(0.551445, abs=1e-6)
    assert (entropy + kl).item() == pytest.approx(0.650331, abs=1e-6)
    torch.testing.assert_close(
        divergence(teacher.repeat(5, 1), student.repeat(5, 1)), kl
    )


def one_step(teacher_epochs: int):
    """Return what a client has after one step on one sample, and what it started from.

    Encoder z = e x with e = 2, x = 1.5; three classes; own and received heads differ.
    """
    model = Classifier(nn.Linear(1, 1, bias=False), 1, 3)
    with torch.no_grad():
        model.encoder.weight.fill_(2.0)
        model.head.weight.copy_(torch.tensor([[0.3], [-0.2], [0.1]]))
        model.head.bias.zero_()
    own = select(state_of(model), "head")
    teacher = {"weight": torch.tensor([[-0.5], [0.4], [0.6]]), "bias": torch.ones(3)}
    task = replace(
        line_task([(1.5, 0.0)], model=model),
        received={"encoder": select(state_of(model), "encoder"), "head": teacher},
        labelled=Samples(torch.tensor([[1.5]]), torch.tensor([1])),
        loss=functional.cross_entropy,
    )
    result = LocalPFedCS(teacher_epochs).train(task, {"head": own})
    return result, own, teacher


@pytest.mark.parametrize("teacher_epochs", [0, 2])
def test_a_step_by_hand(teacher_epochs):
    (update, memory), own, teacher = one_step(teacher_epochs)
    z, label = torch.tensor([3.0]), torch.tensor([0.0, 1.0, 0.0])
    for _ in range(teacher_epochs):
        error = functional.softmax(teacher["weight"] @ z + teacher["bias"], 0) - label
        teacher = {
            "weight": teacher["weight"] - 0.1 * error[:, None] * z,
            "bias": teacher["bias"] - 0.1 * error,
        }
    target = functional.softmax(teacher["weight"] @ z + teacher["bias"], 0)
    student = functional.softmax(own["weight"] @ z + own["bias"], 0)
    # The gradients of cross-entropy and of KL(teacher || student) to the logits.
    error = (student - label) + (student - target)
    head = own["weight"] - 0.1 * error[:, None] * z
    encoder = 2.0 - 0.1 * 1.5 * (own["weight"][:, 0] @ error)
    torch.testing.assert_close(memory["head"]["weight"], head)
    torch.testing.assert_close(memory["head"]["bias"], own["bias"] - 0.1 * error)
    torch.testing.assert_close(update.sent["encoder"]["weight"], encoder.reshape(1, 1))
    assert torch.equal(update.sent["head"]["weight"], memory["head"]["weight"])


def test_without_a_head_received_a_client_trains_as_in_fedper():
    model = Classifier(nn.Linear(1, 1), 1, 2)
    task = replace(
        line_task([(1.5, 0.0)], model=model),
        received={"encoder": select(state_of(model), "encoder")},
        labelled=Samples(torch.tensor([[1.5]]), torch.tensor([1])),
        loss=functional.cross_entropy,
    )
    ours, mine = LocalPFedCS(1).train(task, {})
    theirs, other = LocalFedPer().train(task, {})
    assert ours.sent.keys() == {"encoder"}
    for one, two in ((ours.sent, theirs.sent), (mine, other)):
        for part, tree in one.items():
            assert all(
                torch.equal(leaf, two[part][name]) for name, leaf in tree.items()
            )


def test_the_second_stage_is_fedper_continued_bit_for_bit(run, tmp_path):
    settings = {"rounds__fraction": 0.67, "pfedcs__first-stage": 2}
    whole = run("pfedcs", "whole", rounds__count=4, **settings)
    begun = run("pfedcs", "begun", rounds__count=2, **settings)
    # The same folder, as if it were FedPer's after two rounds.
    (begun.path / "summary.json").unlink()
    config = begun.path / "config.toml"
    text = re.sub(
        r'^method = "pfedcs"', 'method = "fedper"', config.read_text(), flags=re.M
    )
    config.write_text(re.sub(r"^count = 2", "count = 4", text, flags=re.M))
    run_inline(defaults() | read_config(begun.path) | {"output.resume": True})
    assert json.loads((begun.path / "summary.json").read_text())["method"] == "fedper"
    for file in ("final/params.safetensors", "metrics.csv"):
        assert (begun.path / file).read_bytes() == (whole.path / file).read_bytes()
    memories = [
        {k: v for k, v in done.bits().items() if k.startswith("memory")}
        for done in (begun, whole)
    ]
    assert memories[0] == memories[1]
    shutil.rmtree(tmp_path / "begun")


def test_heads_travel_in_the_first_stage_only_and_the_bank_has_no_more(run):
    both = run("pfedcs", rounds__count=2, **{"pfedcs__first-stage": 1})
    fedper = run("fedper", rounds__count=2)
    head = 4 * 10 * (200 + 1)
    for way in ("down_bytes", "up_bytes"):
        more = both.summary["traffic"][way] - fedper.summary["traffic"][way]
        assert more == 6 * head
    rows = sorted((both.path / "bank").rglob("*.safetensors"))
    assert len(rows) == 6
    assert {part for row in rows for part in both.tensors(str(row))} == {"head"}
