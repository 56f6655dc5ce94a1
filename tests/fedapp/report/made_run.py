"""A run folder written by hand: four clients of which the last is unseen."""

import csv
import json
from pathlib import Path
from typing import Any

import tomli_w
import torch

from fedapp.config import defaults
from fedapp.data.manifest import ClientPlan, Manifest
from fedapp.files import write_tensors
from fedapp.metrics import over_clients

EVALUATIONS = {2: (0.5, 0.0625, 0.125, 0.0), 4: (0.75, 0.375, 0.875, 0.5)}
"""Accuracy of clients 0 to 3, by round; client 1 first trains in round 3."""
EXAMPLES = (8, 16, 32, 4)
FAILURE = {"round": 3, "phase": "train", "client": 2, "cause": "it is away"}


def write_run(path: Path, **changes: Any) -> Path:
    """Write the folder; ``changes`` replace keys of summary.json or settings.

    A setting is a change whose name has a dot, or ``method`` and ``seed``.
    """
    settings = defaults() | {
        "data.clients": 4,
        "data.unseen-clients": 1,
        "rounds.count": 4,
        "output.name": path.name,
    }
    settings |= {k: v for k, v in changes.items() if k in settings}
    path.mkdir(parents=True)
    write_config(path, settings)
    (path / "manifest.json").write_text(manifest(int(settings["seed"])).to_json())
    _metrics(path)
    summary = summary_of(settings) | {
        k: v for k, v in changes.items() if k not in settings
    }
    (path / "summary.json").write_text(json.dumps(summary))
    return path


def write_config(path: Path, settings: dict[str, Any]) -> None:
    tables: dict[str, Any] = {"versions": {"torch": "9.8.7", "commit": "abc123"}}
    for name, value in settings.items():
        table, _, key = name.rpartition(".")
        (tables.setdefault(table, {}) if table else tables)[key] = value
    (path / "config.toml").write_text(tomli_w.dumps(tables))


def manifest(seed: int = 42, **changes: Any) -> Manifest:
    plans = tuple(
        ClientPlan(
            train=tuple(range(10 * k, 10 * k + 6)),
            test=tuple(range(10 * k + 6, 10 * k + 8)),
            group=k % 2,
            factors=(k % 2,),
            classes=(0, 1, 2),
            histogram=(1 + k, 3 - k if k < 3 else 0, 2),
        )
        for k in range(4)
    )
    values: dict[str, Any] = {
        "name": "digits",
        "key": "digits-0123",
        "classes": 3,
        "image": (1, 8, 8),
        "mean": (0.0,),
        "std": (1.0,),
        "seed": seed,
        "settings": {"shift": "rotation", "shift-groups": "2", "alpha": 1.0},
        "label_maps": (),
        "clients": plans,
        "notes": ("client 3 gave two samples to client 1",),
    }
    values |= changes
    text = json.dumps({"version": 1, **values}, default=lambda plan: plan.__dict__)
    return Manifest.from_json(text)


def summary_of(settings: dict[str, Any]) -> dict[str, Any]:
    last = EVALUATIONS[4]
    return {
        "status": "completed",
        "error": None,
        "method": settings["method"],
        "seed": settings["seed"],
        "rounds": 4,
        "clients": 4,
        "accuracy": over_clients(last[:3], EXAMPLES[:3]),
        "unseen": {"clients": 1, "mean": last[3]},
        "per_client": [
            {
                "client": k,
                "name": str(k),
                "examples": EXAMPLES[k],
                "accuracy": last[k],
                "loss": 0.25 + k,
                "latent_group": k % 2,
                "trained": k < 3,
            }
            for k in range(4)
        ],
        "traffic": {
            "down_bytes": 1_234_567,
            "up_bytes": 76_543,
            "evaluate_down_bytes": 4321,
            "evaluate_up_bytes": 48,
        },
        "seconds": {
            "startup": 1.25,
            "train": 75.5,
            "evaluate": 3.75,
            "server": 0.5,
            "total": 81.0,
        },
        "failures": [FAILURE],
    }


def _metrics(path: Path) -> None:
    head = "round,phase,client,model,examples,loss,accuracy,trained,last_trained_round"
    rows = [head.split(",")]
    for round_, accuracies in EVALUATIONS.items():
        for k, accuracy in enumerate(accuracies):
            last = {0: round_, 1: 3 if round_ > 2 else 0, 2: round_, 3: 0}[k]
            score = [EXAMPLES[k], 0.25 + k, accuracy, str(last > 0).lower(), last]
            rows.append([str(c) for c in (round_, "evaluate", k, "own", *score)])
    with (path / "metrics.csv").open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)
    work = "round,phase,client,seconds\n1,train,0,2.5\n1,train,1,4.25\n"
    (path / "timing.csv").write_text(work)


def write_groups(path: Path) -> None:
    """Add what HDC-FL leaves: two refreshes and a bank with heads of two kinds.

    Client 1 was a newcomer in round 2, the unseen client 3 is one in round 4.
    """
    folder = path / "hdc-fl"
    folder.mkdir()
    (folder / "refreshes.csv").write_text(
        "round,groups,rank,energy,silhouette,ari_previous,descriptor_change,stable,"
        "active,ari_latent,head_change,spectral_gap\n"
        "2,1,2,0.9,,,,False,False,0.0,1.0,0.1\n"
        "4,2,2,0.9,0.75,0.5,0.1,True,True,1.0,1.0,0.1\n"
    )
    (folder / "memberships.csv").write_text(
        "round,client,group,membership,assigned\n"
        "2,0,0,1.0,True\n2,1,0,1.0,True\n2,2,0,1.0,True\n"
        "4,0,0,0.9,True\n4,0,5,0.1,False\n"
        "4,1,0,0.2,False\n4,1,5,0.8,True\n"
        "4,2,0,0.7,True\n4,2,5,0.3,False\n"
    )
    (folder / "silhouettes.csv").write_text(
        "round,groups,silhouette,chosen\n2,2,0.04,False\n4,2,0.75,True\n"
    )
    (folder / "spectrum.csv").write_text(
        "round,direction,share,kept\n"
        "2,1,0.9,True\n2,2,0.1,True\n4,1,0.625,True\n4,2,0.25,True\n4,3,0.125,False\n"
    )
    (folder / "ages.csv").write_text(
        "round,client,age,in_prototypes\n4,0,0,True\n4,1,1,True\n4,2,3,False\n"
    )
    (folder / "newcomers.csv").write_text(
        "round,client,group,membership,similarity\n"
        "2,1,0,1.0,0.5\n4,3,0,0.25,0.125\n4,3,5,0.75,0.5\n"
    )
    kinds = (torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[0, 0], [0, 2.0]]))
    for k in range(3):
        name = path / "bank" / f"{k:06}" / "r000004-00.safetensors"
        write_tensors(name, {"head": {"weight": kinds[k % 2]}}, num_examples="6")
