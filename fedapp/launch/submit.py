"""``flwr run``: what is submitted to the SuperLink, and how."""

import os
import shutil
from pathlib import Path

import tomli_w

from fedapp.config import project_file
from fedapp.launch.environment import program
from fedapp.launch.job import Job

CONNECTION = "fedapp"


def run_command(job: Job, scratch: Path, *, port: int) -> list[str]:
    """Return ``flwr run``, which prints the log of the run and ends with it."""
    address = {"address": f"127.0.0.1:{port}", "insecure": True}
    (scratch / "home" / "config.toml").write_text(
        tomli_w.dumps({"superlink": {CONNECTION: address}}), encoding="utf-8"
    )
    overrides = scratch / "overrides.toml"
    overrides.write_text(tomli_w.dumps(dict(job.overrides)), encoding="utf-8")
    workers = job.workers or min(os.cpu_count() or 1, job.clients)
    federation = f"num-supernodes={job.clients} init-args-num-cpus={workers}"
    federation += " client-resources-num-cpus=1"
    federation += f" client-resources-num-gpus={job.gpus_per_client}"
    command = [program("flwr"), "run", str(app_folder(scratch)), CONNECTION]
    command += ["--stream", "--run-config", str(overrides)]
    return [*command, "--federation-config", federation]


def app_folder(scratch: Path) -> Path:
    """Return the folder to bundle: the project, or a copy made from a wheel's files."""
    project = project_file()
    package = Path(__file__).resolve().parents[1]
    if project.parent != package:
        return project.parent
    staged = scratch / "app"
    staged.mkdir()
    shutil.copy(project, staged)
    for name in ("fedapp", "strategies", "client_apps"):
        shutil.copytree(package.parent / name, staged / name)
    return staged
