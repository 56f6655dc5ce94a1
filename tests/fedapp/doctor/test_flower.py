"""What may be in the way."""

import os
import socket

from fedapp.doctor.flower import Owner, check_port, check_superlink, check_variables
from fedapp.doctor.gather import answers, free_port, port_owner


def test_a_superlink_that_was_left_is_named():
    finding = check_superlink(listens=True, owner=Owner(31, "/old", "/home/x/.flwr"))

    assert finding.level == "warning"
    assert "process 31, started in /old, FLWR_HOME /home/x/.flwr" in finding.fact
    assert "kill 31" in finding.advice


def test_somebody_on_the_port_who_cannot_be_named():
    assert check_superlink(listens=True, owner=None).level == "warning"
    assert check_superlink(listens=False, owner=None).level == "ok"


def test_the_owner_of_a_port_is_found(monkeypatch):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not answers(port)
        assert port_owner(port) is None
        server.listen()

        found = port_owner(port)

        assert answers(port)
    assert found is not None
    assert (found.pid, found.folder) == (os.getpid(), os.getcwd())


def test_ports():
    assert check_port(None).level == "problem"
    assert check_port(free_port()).level == "ok"


def test_variables():
    clean = check_variables({"HOME": "/x", "RAY_ADDRESS": ""})
    ray, flower = check_variables({"RAY_ADDRESS": "auto", "FLWR_HOME": "/x"})

    assert [finding.level for finding in clean] == ["ok"]
    assert (ray.level, flower.level) == ("warning", "warning")
    assert "unset RAY_ADDRESS" in ray.advice
    assert "FLWR_HOME=/x" in flower.fact
