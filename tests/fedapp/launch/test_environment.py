"""What Flower's programs find."""

from fedapp.launch.environment import environment_of


def test_the_environment_keeps_flower_and_ray_to_this_run(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    monkeypatch.setenv("NO_PROXY", "example.org")

    env = environment_of(tmp_path, install=False)

    assert "RAY_ADDRESS" not in env
    assert env["NO_PROXY"] == "example.org,127.0.0.1,localhost"
    assert env["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert env["FLWR_HOME"].startswith(str(tmp_path))
