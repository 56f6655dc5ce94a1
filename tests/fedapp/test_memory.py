import pytest
import torch

from fedapp.memory import FolderMemory, Who, who_am_i


def memory(value):
    return {"head": {"w": torch.tensor([value])}}


def value(memory):
    return memory["head"]["w"].item() if memory else None


@pytest.mark.parametrize(
    ("node", "who"),
    [
        (
            {"partition-id": 3, "num-partitions": 8},
            Who("3", simulated=True, clients=8),
        ),
        ({"partition-id": 3}, Who("3", simulated=True)),
        ({"client-id": "anna", "data-path": "/x"}, Who("anna", simulated=False)),
        ({"client-id": " 7 ", "partition-id": 3}, Who("7", simulated=False)),
        ({"data-path": "/x", "partition-id": 3}, Who("3", simulated=False)),
    ],
)
def test_a_node_is_known_by_its_id_or_in_a_simulation_by_its_partition(node, who):
    assert who_am_i(node) == who


def test_a_node_that_says_nothing_of_itself_is_refused():
    with pytest.raises(ValueError, match="neither client-id nor partition-id"):
        who_am_i({"something": 1})


@pytest.mark.parametrize("name", ["", "  ", "a/b", ".hidden", ".."])
def test_a_client_id_must_be_a_plain_name(name):
    with pytest.raises(ValueError, match="a short id of its own"):
        who_am_i({"client-id": name, "partition-id": 3})


def test_a_device_without_any_id_is_refused():
    with pytest.raises(ValueError, match="client-id ''"):
        who_am_i({"data-path": "/x"})


def test_a_client_remembers_nothing_at_first(tmp_path):
    assert FolderMemory(tmp_path, 0).load((1, 0)) == {}


def test_a_memory_survives_rounds_without_its_client(tmp_path):
    FolderMemory(tmp_path, 0).save((2, 0), memory(1.5))
    others = FolderMemory(tmp_path, 1)
    for round_ in range(3, 8):
        others.save((round_, 0), memory(-1.0))
    assert value(FolderMemory(tmp_path, 0).load((8, 0))) == 1.5


def test_a_phase_starts_from_the_newest_memory_of_earlier_phases(tmp_path):
    store = FolderMemory(tmp_path, 0)
    for version in [(9, 0), (10, 0), (10, 1)]:
        store.save(version, memory(version[0] + version[1] / 10))
    starts = [value(store.load(v)) for v in [(10, 0), (10, 1), (10, 2), (11, 0)]]
    assert starts == pytest.approx([9.0, 10.0, 10.1, 10.1])


def test_messages_of_one_phase_all_start_from_the_same_memory(tmp_path):
    store = FolderMemory(tmp_path, 0)
    store.save((1, 0), memory(1.0))
    for message in range(3):
        assert value(store.load((2, 0))) == 1.0
        store.save((2, 0), memory(2.0 + message))
    assert value(store.load((2, 1))) == 4.0
