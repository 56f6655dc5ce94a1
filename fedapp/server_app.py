"""The ServerApp: read config, prepare data, build the strategy, run, save."""

import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from logging import INFO, getLogger
from pathlib import Path
from typing import Any

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedapp import records
from fedapp.config import Scalar, Settings, build
from fedapp.data.clients import Manifest, make_manifest
from fedapp.data.images import load_images
from fedapp.exchange import Clients, RunStopped
from fedapp.files import sha256
from fedapp.ledger import Ledger
from fedapp.methods import check_settings, table
from fedapp.models import ImageShape, state_of
from fedapp.models import build as build_model
from fedapp.report.build import try_report
from fedapp.run_folder import RunFolder
from fedapp.strategy import RoundStrategy
from fedapp.summary import durations, results
from fedapp.workplace import cache_folder

log = getLogger("flwr")

app = ServerApp()


class Interrupted(RunStopped):
    """Somebody asked the run to stop."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation that the run config describes.

    The run folder's summary.json says how it ended, whatever happens.
    """
    settings = check_settings(context.run_config)
    folder = RunFolder(run_path(settings))
    log.log(INFO, "Run folder: %s", folder.path)
    folder.write_config(context.run_config, commit=os.environ.get("FEDAPP_COMMIT", ""))
    run = Run(settings, folder)
    status, error = "failed", ""
    try:
        run.execute(grid)
        status = "completed"
    except (Interrupted, KeyboardInterrupt):
        status, error = "interrupted", "the run was interrupted"
        raise
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
        if isinstance(problem, RunStopped | ValueError | OSError):
            error = str(problem)
        raise
    finally:
        run.finish(status, error)
        log.log(INFO, "Run folder: %s (%s)", folder.path, status)


def run_path(settings: Settings) -> Path:
    """Return the run folder's path; relative ones start at the working directory."""
    when = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = settings.output.name or (
        f"{settings.method}-{settings.data.name}-s{settings.seed}-{when}"
    )
    return Path(settings.output.dir).expanduser().absolute() / name


class Run:
    """One run, from settings to summary."""

    def __init__(self, settings: Settings, folder: RunFolder) -> None:
        self.settings = settings
        self.folder = folder
        self.strategy: RoundStrategy | None = None
        self._started = time.monotonic()
        self._startup = 0.0

    def execute(self, grid: Grid) -> None:
        """Find the clients, prepare data and model, run all rounds."""
        settings, rounds = self.settings, self.settings.rounds
        self.folder.progress(stage="waiting for clients", round=0, rounds=rounds.count)
        clients = Clients()
        clients.await_all(
            grid,
            settings.data.clients,
            seconds=rounds.wait_seconds,
            alive=self._alive,
        )
        self.folder.progress(stage="preparing data")
        torch.set_num_threads(1)
        cfg: dict[str, Scalar] = {"run-id": self.folder.path.name}
        groups: list[int] = []
        if clients.simulated:
            manifest = self._prepare_data()
            image, classes = manifest.image, manifest.classes
            groups = [plan.group for plan in manifest.clients]
            cfg |= {
                "run-dir": str(self.folder.path),
                "cache-dir": str(cache_folder()),
                "manifest": sha256(manifest.to_json()),
            }
        else:
            image, classes = _agreed_images(clients)
        model = build_model(settings.model.name, image, classes, seed=settings.seed)
        self.strategy = self._strategy(clients, cfg, groups)
        self._startup = time.monotonic() - self._started
        arrays = records.to_record(state_of(model))
        del model
        self.strategy.start(grid, arrays, num_rounds=rounds.count)

    def _prepare_data(self) -> Manifest:
        data = self.settings.data
        images = load_images(
            data.name,
            path=data.path,
            image_column=data.image_column,
            label_column=data.label_column,
            client_column=data.client_column,
            cache=cache_folder(),
        )
        manifest = make_manifest(
            images,
            seed=self.settings.seed,
            name=data.name,
            clients=data.clients,
            unseen_clients=data.unseen_clients,
            partition=data.partition,
            alpha=data.alpha,
            classes_per_client=data.classes_per_client,
            shift=data.shift,
            shift_groups=data.shift_groups,
            samples_per_client=data.samples_per_client,
            test_fraction=data.test_fraction,
            official_split=data.official_split,
            augment=data.augment,
        )
        self.folder.text("manifest.json", manifest.to_json())
        for note in manifest.notes:
            log.log(INFO, "data: %s", note)
        return manifest

    def _strategy(
        self, clients: Clients, cfg: Mapping[str, Scalar], groups: list[int]
    ) -> RoundStrategy:
        settings, rounds = self.settings, self.settings.rounds
        shared: dict[str, Any] = {
            "fraction": rounds.fraction,
            "evaluate_every": rounds.evaluate_every,
            "seed": settings.seed,
            "num_clients": settings.data.clients,
            "unseen_clients": settings.data.unseen_clients,
            "min_replies": rounds.min_replies,
            "wait_seconds": rounds.wait_seconds,
            "reply_seconds": rounds.reply_seconds,
            "groups": groups,
            "cfg": cfg,
            "folder": self.folder,
            "alive": self._alive,
            "clients": clients,
        }
        method = table()[settings.method]
        return build(method.server, {**settings.table, **shared})

    def _alive(self) -> None:
        if (self.folder.path / "stop").exists():
            raise Interrupted("somebody asked the run to stop")

    def finish(self, status: str, error: str) -> None:
        """Save the tensors of the last whole round, the summary and the report."""
        strategy, data = self.strategy, self.settings.data
        if strategy is not None:
            self.folder.tensors("final/params.safetensors", {"params": strategy.params})
            self.folder.tensors("final/state.safetensors", strategy.state)
        ledger = strategy.ledger if strategy is not None else Ledger()
        summary = {
            "status": status,
            "error": error or None,
            "method": self.settings.method,
            "seed": self.settings.seed,
            "rounds": strategy.round if strategy is not None else 0,
            "clients": data.clients,
            **results(
                ledger,
                names=strategy.clients.names if strategy is not None else (),
                groups=strategy.groups if strategy is not None else (),
            ),
            "seconds": durations(
                ledger,
                startup=self._startup,
                total=time.monotonic() - self._started,
            ),
        }
        self.folder.json("summary.json", summary)
        if self.settings.output.report:
            self.folder.progress(stage="drawing the report")
            try_report(self.folder.path)
        # Last: whoever watches ends the processes of a run that says it has ended.
        self.folder.progress(stage="", status=status, error=error or None)


def _agreed_images(clients: Clients) -> tuple[ImageShape, int]:
    """Return image shape and class count, which all devices must share."""
    found = {name: clients.images.get(name, ()) for name in clients.names}
    first = clients.names[0]
    for name, images in found.items():
        if images != found[first]:
            raise RunStopped(
                f"devices {first!r} and {name!r} have different data: (channels, "
                f"height, width, classes) is {found[first]} and {images}"
            )
    channels, height, width, classes = found[first]
    return ImageShape(channels, height, width), classes
