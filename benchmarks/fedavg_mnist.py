"""A round of FedAvg under the app against a plain PyTorch loop doing the same work.

MNIST, 20 clients, about 52,000 training samples, Dirichlet(0.1), the FedAvg CNN with
582,026 parameters, batch 32, one epoch, evaluation of all clients in every round, two
workers with one thread each. The plain loop has its tensors in memory, channels-last,
and two processes with one thread each; it divides clients by size. Both are alternated;
the figure is the ratio of median round times, first rounds left out.
"""

import csv
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from data_folder import data_folder
from torch.nn import functional

from fedapp.data.clients import Manifest, client_samples
from fedapp.data.images import open_cached
from fedapp.models import ImageShape, build, state_of
from fedapp.params import WeightedMean
from fedapp.workplace import cache_folder

ROUNDS = 6
REPEATS = 3
SETTINGS = {
    "data.name": "mnist",
    "data.clients": 20,
    "data.partition": "dirichlet",
    "data.alpha": 0.1,
    "data.shift": "none",
    "data.test-fraction": 0.25,
    "model.name": "cnn",
    "rounds.count": ROUNDS,
    "rounds.evaluate-every": 1,
    "local.batch-size": 32,
    "local.lr": 0.01,
}


def app_rounds(data: Path, out: Path) -> tuple[list[float], Path]:
    """Run the app; return seconds of every round but the first, and its run folder."""
    pairs = [f"{name}={value}" for name, value in SETTINGS.items()]
    folder = f"output.dir={out}", f"output.name={time.monotonic_ns()}"
    command = [sys.executable, "-c", "from fedapp.cli import main; main()", "run"]
    command += ["fedavg", f"data.path={data / 'mnist'}", *pairs, *folder]
    subprocess.run([*command, "--workers", "2", "--quiet"], check=True)
    run = max(out.iterdir(), key=lambda folder: folder.stat().st_mtime)
    spent = [0.0] * ROUNDS
    with (run / "timing.csv").open() as stream:
        for row in csv.DictReader(stream):
            if row["client"] == "":
                spent[int(row["round"]) - 1] += float(row["seconds"])
    return spent[1:], run


def worker(pipe: Connection, run: Path, clients: list[int]) -> None:
    """Train and evaluate ``clients`` whenever a model comes through the pipe."""
    torch.set_num_threads(1)
    manifest = Manifest.from_json((run / "manifest.json").read_text())
    images = open_cached(cache_folder(), manifest.key)
    data = {k: client_samples(images, manifest, k) for k in clients}
    model = build("cnn", ImageShape(1, 28, 28), 10, seed=0)
    model = model.to(memory_format=torch.channels_last)
    while (job := pipe.recv()) is not None:
        kind, state = job
        for client in clients:
            model.load_state_dict(state)
            part = data[client].train if kind == "train" else data[client].test
            if kind == "train":
                model.train()
                optimizer = torch.optim.SGD(
                    model.parameters(), lr=0.01, momentum=0.9, fused=True
                )
                for index in torch.randperm(len(part)).split(32):
                    batch = part.images[index]
                    batch = batch.contiguous(memory_format=torch.channels_last)
                    loss = functional.cross_entropy(model(batch), part.labels[index])
                    optimizer.zero_grad(set_to_none=True)
                    loss.backward()
                    optimizer.step()
                pipe.send((client, len(part), state_of(model)))
            else:
                model.eval()
                with torch.inference_mode():
                    right = sum(
                        int((model(x).argmax(1) == y).sum())
                        for x, y in zip(
                            part.images.split(512), part.labels.split(512), strict=True
                        )
                    )
                pipe.send((client, len(part), right))


def plain_rounds(run: Path) -> list[float]:
    """Run the plain loop; return seconds of every round but the first."""
    plans = json.loads((run / "manifest.json").read_text())["clients"]
    order = sorted(range(len(plans)), key=lambda k: -len(plans[k]["train"]))
    shares: list[list[int]] = [[], []]
    for client in order:
        loads = [sum(len(plans[k]["train"]) for k in share) for share in shares]
        shares[loads.index(min(loads))].append(client)
    context = multiprocessing.get_context("spawn")
    pipes = []
    for share in shares:
        here, there = context.Pipe()
        context.Process(target=worker, args=(there, run, share), daemon=True).start()
        pipes.append((here, share))
    state = state_of(build("cnn", ImageShape(1, 28, 28), 10, seed=0))
    spent = []
    for _ in range(ROUNDS):
        started = time.monotonic()
        for kind in ("train", "evaluate"):
            for pipe, _ in pipes:
                pipe.send((kind, state))
            replies = [pipe.recv() for pipe, share in pipes for _ in share]
            if kind == "train":
                mean = WeightedMean()
                for _, count, trained in sorted(replies, key=lambda reply: reply[0]):
                    mean.add(trained, count)
                state = mean.value()
        spent.append(time.monotonic() - started)
    for pipe, _ in pipes:
        pipe.send(None)
    return spent[1:]


def main() -> None:
    """Alternate both and print the ratio."""
    data = data_folder()
    app: list[float] = []
    plain: list[float] = []
    with tempfile.TemporaryDirectory() as out:
        for _ in range(REPEATS):
            seconds, run = app_rounds(data, Path(out))
            app += seconds
            plain += plain_rounds(run)
            print(
                f"app {statistics.median(app):.2f} s, "
                f"plain {statistics.median(plain):.2f} s a round; "
                f"ratio {statistics.median(app) / statistics.median(plain):.3f}"
            )


if __name__ == "__main__":
    main()
