"""Whole runs on two devices, and what is found where afterwards."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deployment.federation import Federation
from fedapp.config import project_file
from fedapp.files import TensorFile

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(400)]


def parts(file: Path) -> dict[str, set[str]]:
    return {part: {*tree} for part, tree in TensorFile(file).payload().items()}


@pytest.mark.parametrize("method", ["fedavg", "hdc-fl", "fedper"])
def test_a_method_runs_on_two_devices(pair: Federation, method: str) -> None:
    summary = pair.run(method, method)

    assert (summary["status"], summary["error"]) == ("completed", None)
    assert (summary["rounds"], summary["clients"]) == (2, 2)
    clients = [(row["client"], row["name"]) for row in summary["per_client"]]
    assert clients == [(0, "anna"), (1, "ben")]
    assert all(row["trained"] for row in summary["per_client"])
    # Ten classes: who guesses gets a tenth.
    assert summary["accuracy"]["worst"] > 0.3
    assert summary["failures"] == []

    folder, log = pair.scratch / "runs" / method, pair.log(method)
    about = json.loads((folder / "devices.json").read_text())
    assert about["clients"] == ["anna", "ben"]
    assert not (folder / "memory").exists()
    assert not (folder / "manifest.json").exists()
    assert log.count("data.partition") == 1
    assert str(pair.scratch / "user") not in log

    if method == "hdc-fl":
        assert "no groups: 2 clients have sent a head, grouping takes 4" in log
    if method == "fedper":
        found = pair.memories(method)
        assert found.keys() == {"anna", "ben"}
        for home in found.values():
            assert [Path(name).name for name in home] == [
                "r000001-00.safetensors",
                "r000002-00.safetensors",
            ]
        assert parts(folder / "final/params.safetensors")["params"]
        assert not any(
            "head" in name
            for name in parts(folder / "final/params.safetensors")["params"]
        )


def test_the_bundle_holds_what_devices_need_and_nothing_else(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("flwr"), "build"]
    app = ["--app", project_file().parent]
    subprocess.run([*command, *app], cwd=tmp_path, check=True, timeout=60)
    (bundle,) = tmp_path.glob("*.fab")
    assert bundle.stat().st_size < 10e6

    names = set(zipfile.ZipFile(bundle).namelist())
    loaded = subprocess.run(
        [sys.executable, "-c", IMPORTED, project_file().parent],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    needed = {*loaded.stdout.split()}
    assert names - needed == {"pyproject.toml", ".info/CONTENT"}


IMPORTED = """
import sys, pathlib
root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root))
import fedapp.server_app, fedapp.client_app
import fedapp.data.parquet, fedapp.launch.guard, fedapp.report.build
for module in list(sys.modules.values()):
    file = pathlib.Path(getattr(module, "__file__", None) or "/")
    if file.is_relative_to(root):
        print(file.relative_to(root).as_posix())
"""
