"""A method from another package, installed and run as a user would."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import TINY

from fedapp.files import TensorFile

EXAMPLE = Path(__file__).parent / "plugin_example"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the example beside the app; return the environment that sees it."""
    target = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "example"
    # Built from a copy, so that the build leaves nothing in the tree.
    subprocess.run(["cp", "-r", EXAMPLE, source], check=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    pip += ["--no-build-isolation", "--target", str(target), str(source)]
    subprocess.run(pip, check=True, capture_output=True)
    return {**os.environ, "PYTHONPATH": str(target)}


def fedapp(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    code = "from fedapp.cli import main; main()"
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, env=env, capture_output=True, text=True)


def run_app(env: dict[str, str], folder: Path, *words: str) -> Path:
    given = {word.partition("=")[0] for word in words}
    pairs = [f"{k}={v}" for k, v in TINY.items() if k not in given]
    output = [f"output.dir={folder.parent}", f"output.name={folder.name}"]
    done = fedapp(env, "run", *words, *pairs, *output)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((folder / "summary.json").read_text())["status"] == "completed"
    return folder


def final(folder: Path) -> dict[str, torch.Tensor]:
    return TensorFile(folder / "final/params.safetensors").part("params")


def check(env: dict[str, str], folder: Path, fedavg: Path, start: Path, *engine: str):
    """Half a step lies half way between the start and FedAvg's mean."""
    half = "plugin.settings=server_lr = 0.5"
    done = run_app(env, folder, "server-step", half, "rounds.count=1", *engine)
    for name, leaf in final(fedavg).items():
        expected = (leaf + final(start)[name]) / 2
        torch.testing.assert_close(final(done)[name], expected, atol=1e-6, rtol=1e-5)
        assert not torch.allclose(leaf, expected, atol=1e-5)


@pytest.fixture
def ends(run) -> tuple[Path, Path]:
    """Return one round of FedAvg, and one in which nothing moves."""
    fedavg = run("fedavg", rounds__count=1)
    start = run("fedavg", rounds__count=1, local__lr=1e-12)
    return fedavg.path, start.path


def test_it_is_listed(installed):
    assert "server-step" in fedapp(installed, "methods").stdout


def test_it_runs_inline(installed, tmp_path, ends):
    check(installed, tmp_path / "plugged", *ends, "--engine", "inline")


@pytest.mark.slow
def test_it_runs_under_ray(installed, tmp_path, ends):
    check(installed, tmp_path / "plugged", *ends)


def test_its_own_model_checks_its_settings(installed, tmp_path):
    done = fedapp(installed, "run", "server-step", "plugin.settings=server_lr = -1")
    assert done.returncode == 2
    assert "server_lr" in done.stderr
