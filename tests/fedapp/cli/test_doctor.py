"""``fedapp doctor``: lines and exit codes."""

import numpy as np
import pytest
from command_line import fedapp

from fedapp.doctor import gather


@pytest.fixture(autouse=True)
def _a_healthy_machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gather, "available_memory", lambda: 64 * 10**9)
    monkeypatch.setattr(gather, "answers", lambda port: False)


def lines(output: str) -> dict[str, str]:
    return {line.split()[1]: line for line in output.splitlines()}


def test_a_healthy_machine():
    result = fedapp("doctor", "fedavg", "data.clients=4", "--workers", "1")

    assert result.exit_code == 0, result.output
    found = lines(result.output)
    assert {"Python", "packages", "CPUs", "port", "data", "memory"} <= found.keys()
    assert "1,797 images" in found["data"]
    assert "1 x" in found["memory"]


def test_a_problem_is_the_exit_code_and_has_advice():
    result = fedapp("doctor", "data.name=custom", "data.path=nowhere")

    assert result.exit_code == 1
    assert lines(result.output)["data.path"].startswith("problem")
    assert "nowhere" in lines(result.output)["data.path"]
    assert "output.dir" in lines(result.output)


def test_a_network_that_cannot_be_built(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, images=np.zeros((6, 2, 2), np.uint8), labels=np.arange(6) % 3)

    result = fedapp("doctor", "data.name=custom", f"data.path={file}")

    assert result.exit_code == 1
    assert lines(result.output)["model.name"].startswith("problem")


def test_wrong_packages_end_the_examination(monkeypatch):
    monkeypatch.setattr(gather, "installed", lambda names: {})

    result = fedapp("doctor")

    assert result.exit_code == 1
    assert "pip install 'flwr[simulation]==1.42.0'" in result.output
    assert "CPUs" not in result.output


def test_bad_settings():
    result = fedapp("doctor", "fedavgg")

    assert result.exit_code == 2
    assert "did you mean 'fedavg'?" in result.stderr


@pytest.mark.slow
def test_ray_is_started_on_request():
    result = fedapp("doctor", "--ray")

    assert result.exit_code == 0, result.output
    assert "starts; it sees" in lines(result.output)["Ray"]
