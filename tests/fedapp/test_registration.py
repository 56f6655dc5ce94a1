import time

import pytest
from flwr.app import Error, Message, RecordDict
from post import Post, nothing

from fedapp import records
from fedapp.devices import OwnData
from fedapp.exchange import RunStopped
from fedapp.memory import Who
from fedapp.registration import Clients

pytestmark = pytest.mark.usefixtures("inside_a_run")


class Nodes(Post):
    """A grid whose nodes say who they are; None: the node fails."""

    def __init__(self, **names):
        super().__init__()
        self.who = {
            int(node[1:]): None if name is None else Who(name, simulated=False)
            for node, name in names.items()
        }

    def get_node_ids(self):
        return list(self.who)

    def answer(self, message):
        who = self.who[message.metadata.dst_node_id]
        if who is None:
            return Message(Error(code=0, reason="boom"), reply_to=message)
        return Message(records.who_reply(who), reply_to=message)


def gather(grid, count, *, seconds=0.0, alive=nothing):
    clients = Clients()
    clients.await_all(grid, count, seconds=seconds, alive=alive)
    return clients


def test_clients_are_numbered_by_name_in_natural_order():
    clients = gather(Nodes(n7="10", n8="b", n9="2", n6="a"), 4)
    assert clients.names == ["2", "10", "a", "b"]
    assert clients.nodes == {0: 9, 1: 7, 2: 6, 3: 8}


def test_zero_clients_means_whoever_is_there():
    assert gather(Nodes(n7="a", n8="b"), 0).names == ["a", "b"]


def test_too_few_devices_are_named_with_both_numbers_and_the_options():
    with pytest.raises(RunStopped, match=r"2 clients .* data\.clients = 3") as caught:
        gather(Nodes(n7="a", n8="b"), 3)
    assert "rounds.wait-seconds" in str(caught.value)


@pytest.mark.parametrize("announced", [2, 5])
def test_a_simulation_of_another_size_is_refused_without_waiting(announced):
    grid = Nodes(n7="0", n8="1")
    grid.who = {n: Who(w.name, True, announced) for n, w in grid.who.items()}
    with pytest.raises(RunStopped) as caught:
        gather(grid, 3, seconds=1000)
    assert f"{announced} clients are there, but data.clients = 3" in str(caught.value)
    assert '--federation-config "num-supernodes=3 ' in str(caught.value)


def test_too_many_devices_are_refused_without_waiting():
    with pytest.raises(RunStopped, match=r"3 clients .* data\.clients = 2"):
        gather(Nodes(n7="a", n8="b", n9="c"), 2, seconds=1000)


def test_two_nodes_with_one_id_are_refused_by_name():
    with pytest.raises(RunStopped, match="two nodes say they are client 'b'"):
        gather(Nodes(n7="a", n8="b", n9="b"), 3)


def test_clients_that_come_late_are_waited_for():
    grid = Nodes(n7="a")

    def later():
        grid.who[8] = Who("b", simulated=False)

    assert gather(grid, 2, seconds=60, alive=later).names == ["a", "b"]


def test_a_node_that_fails_is_no_client_and_is_asked_again():
    grid = Nodes(n7="a", n8=None)

    def recover():
        if not grid.waiting:
            grid.who[8] = Who("b", simulated=False)

    clients = gather(grid, 2, seconds=60, alive=recover)
    assert (clients.names, clients.strangers) == (["a", "b"], {})
    assert grid.pushed == [7, 8, 8]


def test_nodes_that_did_not_say_who_they_are_are_named_if_clients_are_missing():
    class Stranger(Nodes):
        def answer(self, message):
            if message.metadata.dst_node_id == 9:
                return Message(RecordDict(), reply_to=message)
            return super().answer(message)

    with pytest.raises(RunStopped, match=r"^1 clients are there") as caught:
        gather(Stranger(n7="a", n8=None, n9="c"), 3)
    assert "node 8: Flower reports: boom" in str(caught.value)
    assert "node 9: it does not run this app" in str(caught.value)


def test_what_devices_say_of_their_images_is_kept_by_name():
    grid = Nodes(n7="a", n8="b")
    data = OwnData(1, 8, 8, 10, "ab12")
    grid.who[7] = Who("a", simulated=False, data=data)
    assert gather(grid, 2).data == {"a": data}


def test_a_node_that_restarts_under_a_new_id_is_the_same_client():
    grid = Nodes(n7="a", n8="b")
    clients = gather(grid, 2)
    grid.who[9] = grid.who.pop(7)
    clients.refresh(grid, seconds=5, alive=nothing)
    assert clients.nodes == {0: 9, 1: 8}
    assert grid.pushed == [7, 8, 9]


def test_a_node_that_restarts_before_the_old_one_is_gone_is_the_same_client():
    grid = Nodes(n7="a", n8="b")
    clients = gather(grid, 2)
    grid.who[5] = grid.who[7]
    clients.refresh(grid, seconds=5, alive=nothing)
    assert clients.nodes == {0: 5, 1: 8}


def test_a_node_that_leaves_is_away_until_it_is_back():
    grid = Nodes(n7="a", n8="b")
    clients = gather(grid, 2)
    gone = grid.who.pop(7)
    clients.refresh(grid, seconds=5, alive=nothing)
    assert clients.nodes == {1: 8}
    grid.who[7] = gone
    clients.refresh(grid, seconds=5, alive=nothing)
    assert clients.nodes == {0: 7, 1: 8}


def test_a_client_that_comes_after_the_start_is_left_out():
    grid = Nodes(n7="b", n8="c")
    clients = gather(grid, 2)
    grid.who[9] = Who("a", simulated=False)
    clients.refresh(grid, seconds=5, alive=nothing)
    assert clients.names == ["b", "c"]
    assert clients.nodes == {0: 7, 1: 8}


class Dying(Nodes):
    """Node ``gone`` answers once, then never again, though it still seems there."""

    def __init__(self, gone, **names):
        super().__init__(**names)
        self.gone, self._asked = gone, 0

    def answer(self, message):
        if message.metadata.dst_node_id == self.gone:
            self._asked += 1
            if self._asked > 1:
                return Message(Error(code=5, reason="unavailable"), reply_to=message)
        return super().answer(message)


def test_a_device_that_restarts_while_others_are_awaited_does_not_take_its_own_id():
    grid = Dying(7, n7="a")

    def restart():
        grid.who[9] = Who("a", simulated=False)
        grid.who[8] = Who("b", simulated=False)

    clients = gather(grid, 2, seconds=60, alive=restart)
    assert (clients.names, clients.nodes) == (["a", "b"], {0: 9, 1: 8})


def test_a_device_that_comes_back_with_other_data_is_left_out():
    grid, data = Nodes(n7="a", n8="b"), OwnData(1, 8, 8, 10, "ab12")
    for node, who in grid.who.items():
        grid.who[node] = Who(who.name, simulated=False, data=data)
    clients = gather(grid, 2)
    del grid.who[8]
    grid.who[9] = Who("b", simulated=False, data=data._replace(class_key="cd34"))
    clients.refresh(grid, seconds=5, alive=nothing)
    assert clients.nodes == {0: 7}
    assert "client 'b' is back with other data" in clients.strangers[9]
    assert clients.data["b"] == data
    grid.who[10] = Who("b", simulated=False, data=data)
    clients.refresh(grid, seconds=5, alive=nothing)
    assert clients.nodes == {0: 7, 1: 10}


def test_a_node_that_said_what_is_wrong_with_it_is_not_asked_in_every_phase():
    grid = Nodes(n7="a", n8="b", n9="c", n10=None)
    grid.who[9] = Who("c", simulated=False, problem="no data")
    clients = gather(grid, 2)
    before = len(grid.pushed)
    clients.refresh(grid, seconds=5, alive=nothing)
    assert grid.pushed[before:] == [10]
    assert clients.strangers[9] == "client 'c': no data"


def test_a_device_and_a_node_without_id_are_not_mixed():
    grid = Nodes(n7="a", n8="b")
    grid.who[8] = Who("0", simulated=True, clients=2)
    with pytest.raises(RunStopped, match="'a' is a device, but node '0' has neither"):
        gather(grid, 2)


def test_those_that_are_away_are_waited_for_but_not_for_ever():
    grid = Nodes(n7="a", n8="b")
    clients = gather(grid, 2)
    gone = grid.who.pop(8)

    def back():
        grid.who[9] = gone

    started = time.monotonic()
    clients.await_back(grid, seconds=0.3, alive=nothing)
    assert 0.3 <= time.monotonic() - started < 3
    assert clients.nodes == {0: 7}
    clients.await_back(grid, seconds=60, alive=back)
    assert clients.nodes == {0: 7, 1: 9}


def test_devices_that_cannot_take_part_are_not_taken_for_a_simulation():
    grid = Nodes(n7="a")
    grid.who[7] = Who("a", simulated=False, problem="no data")
    with pytest.raises(RunStopped, match="start more SuperNodes") as caught:
        gather(grid, 1)
    assert "--federation-config" not in str(caught.value)


def test_where_nobody_is_both_ways_to_begin_are_named():
    with pytest.raises(RunStopped, match=r"start SuperNodes, or .*num-supernodes=2 "):
        gather(Nodes(), 2)
