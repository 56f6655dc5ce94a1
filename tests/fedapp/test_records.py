import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedapp import records
from fedapp.algorithm import Update
from fedapp.devices import OwnData
from fedapp.memory import Who
from fedapp.records import RESERVED, ContextMemory, Packer, read_reply

PAYLOAD = {
    "model": {
        "w": torch.tensor([[0.1, -2.0], [3.0, 1e-30]]),
        "steps": torch.tensor(2**40 + 1),
        "mask": torch.tensor([True, False]),
        "scale": torch.tensor(0.25),
        "none": torch.zeros(0, 3),
    },
    "classes": {"ids": torch.tensor([3, 1], dtype=torch.int64)},
}


def same(left, right):
    assert {part: list(tree) for part, tree in left.items()} == {
        part: list(tree) for part, tree in right.items()
    }
    for part, tree in left.items():
        for name, leaf in tree.items():
            other = right[part][name]
            assert (leaf.dtype, leaf.shape) == (other.dtype, other.shape), name
            assert torch.equal(leaf, other), name


def reply_with(met=None, metrics=None, **arrays):
    good = {"client-id": 3, "num-examples": 7, "seconds": 0.5}
    content = RecordDict({part: records.to_record(t) for part, t in arrays.items()})
    content["met"] = MetricRecord(good if met is None else met)
    content["metrics"] = MetricRecord(metrics or {})
    return content


def test_a_request_comes_out_as_it_went_in():
    cfg = {"phase": "train", "round": 2, "run-dir": "/x"}
    scalars = {"mu": 0.5, "on": True}
    content = records.request(Packer().pack(PAYLOAD), cfg, scalars)
    payload, found_cfg, found_scalars = records.read_request(content)
    same(payload, PAYLOAD)
    assert (found_cfg, found_scalars) == (cfg, scalars)


def test_tensors_read_own_their_memory():
    record = records.to_record({"w": torch.ones(2)})
    records.to_params(record)["w"].add_(1)
    assert records.to_params(record)["w"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "leaf",
    [torch.arange(6.0).reshape(2, 3).T, torch.ones(2, requires_grad=True)],
    ids=["transposed", "with-gradient"],
)
def test_a_tensor_may_lie_in_memory_as_it_likes(leaf):
    found = records.to_params(records.to_record({"w": leaf}))["w"]
    assert torch.equal(found, leaf.detach())


def test_a_tree_that_is_shared_is_packed_once():
    packer, shared = Packer(), {"w": torch.ones(1)}
    first = packer.pack({"model": shared, "own": {"w": torch.zeros(1)}})
    second = packer.pack({"model": shared, "own": {"w": torch.zeros(1)}})
    assert first["model"] is second["model"]
    assert first["own"] is not second["own"]


def test_a_tree_packed_after_another_is_not_mistaken_for_it():
    packer, trees = Packer(), [{"w": torch.tensor([v])} for v in (1.0, 2.0, 1.0)]
    packed = [packer.pack({"model": tree})["model"] for tree in trees]
    assert [records.to_params(p)["w"].item() for p in packed] == [1.0, 2.0, 1.0]


@pytest.mark.parametrize("part", RESERVED)
def test_a_part_may_not_have_the_name_of_another_record(part):
    with pytest.raises(ValueError, match=f"part named '{part}'"):
        Packer().pack({part: {"w": torch.ones(1)}})


def test_a_reply_comes_out_as_it_went_in():
    sent = Update(PAYLOAD, 7, {"loss": 0.5, "count": 3})
    content = records.reply(sent, client=3, seconds=1.5)
    update, seconds = read_reply(content, asked={"mu": 0.5})
    same(update.sent, PAYLOAD)
    assert (update.client, update.num_examples, seconds) == (3, 7, 1.5)
    assert (update.metrics, update.asked) == ({"loss": 0.5, "count": 3}, {"mu": 0.5})


def test_what_a_client_says_went_wrong_is_the_error():
    content = records.error_reply("OSError: disk full", client=3)
    with pytest.raises(ValueError, match=r"^OSError: disk full$"):
        read_reply(content, asked={})


@pytest.mark.parametrize("met", [{}, {"client-id": 3}, {"num-examples": 7}])
def test_a_reply_must_say_whose_it_is_and_for_how_many_examples(met):
    with pytest.raises(ValueError, match="no record 'met' with client-id and num-ex"):
        read_reply(reply_with(met), asked={})


def test_a_reply_without_any_record_is_refused():
    with pytest.raises(ValueError, match="no record 'met'"):
        read_reply(RecordDict(), asked={})


@pytest.mark.parametrize("key", ["client-id", "num-examples", "seconds"])
def test_a_list_is_refused_where_a_number_belongs(key):
    met = {"client-id": 3, "num-examples": 7, "seconds": 0.5, key: [1, 2]}
    with pytest.raises(ValueError, match=r"it has \[1, 2\] where a number belongs"):
        read_reply(reply_with(met), asked={})


def test_a_metric_must_be_a_number():
    with pytest.raises(ValueError, match=r"it has \[0\.5\] where a number belongs"):
        read_reply(reply_with(metrics={"loss": [0.5]}), asked={})


@pytest.mark.parametrize("key", ["client-id", "num-examples"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), 2.5])
def test_a_count_must_be_whole(key, value):
    met = {"client-id": 3, "num-examples": 7, key: value}
    with pytest.raises(ValueError, match=str(value)):
        read_reply(reply_with(met), asked={})


@pytest.mark.parametrize(
    "array",
    [
        Array(dtype="<U1", shape=(1,), stype="numpy.ndarray", data=b""),
        Array(dtype="float32", shape=(1,), stype="numpy.ndarray", data=b"no array"),
        Array(dtype="float32", shape=(1,), stype="other", data=b""),
        Array.from_numpy_ndarray(np.array(["a"])),
    ],
    ids=["empty", "garbage", "other-program", "text"],
)
def test_an_array_that_cannot_be_read_is_a_bad_reply_and_no_crash(array):
    content = reply_with()
    content["model"] = ArrayRecord(array_dict={"w": array})
    with pytest.raises(ValueError, match="model/w"):
        read_reply(content, asked={})


def test_a_context_remembers_the_last_memory_whole():
    state = RecordDict({"other": ConfigRecord({"kept": 1})})
    assert ContextMemory(state).load((1, 0)) == {}
    ContextMemory(state).save((1, 0), {"old": {"w": torch.ones(1)}})
    ContextMemory(state).save((2, 0), PAYLOAD)
    same(ContextMemory(state).load((5, 0)), PAYLOAD)
    assert state["other"]["kept"] == 1


@pytest.mark.parametrize(
    "who",
    [
        Who("3", simulated=True, clients=8),
        Who("anna", simulated=False, data=OwnData(3, 32, 24, 10, "ab12")),
        Who("ben", simulated=False, problem="no data"),
    ],
)
def test_who_a_node_is_comes_out_as_it_went_in(who):
    assert records.read_who(records.who_reply(who)) == who


def test_a_node_that_does_not_say_who_it_is_runs_another_app():
    with pytest.raises(ValueError, match="does not run this app"):
        records.read_who(RecordDict({"who": ConfigRecord({"name": "x"})}))
