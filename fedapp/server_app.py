"""The ServerApp: read config, prepare data, build the strategy, run, save."""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from logging import ERROR, INFO, WARNING, getLogger
from pathlib import Path
from typing import Any

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedapp import records, watchdog
from fedapp.config import Flat, Scalar, Settings, build
from fedapp.data.clients import Manifest, make_manifest
from fedapp.data.images import ImageSet, load_images
from fedapp.devices import IGNORED, agreed, run_key
from fedapp.exchange import RunStopped
from fedapp.files import sha256
from fedapp.ledger import Ledger
from fedapp.methods import check_settings, may_differ, network, table
from fedapp.model_mix import check_widths, dealt, in_words
from fedapp.models import ImageShape, state_of
from fedapp.params import Params, num_bytes
from fedapp.registration import Clients
from fedapp.report.build import try_report
from fedapp.run_folder import RunFolder, check_same, read_config
from fedapp.strategy import RoundStrategy
from fedapp.summary import against_fedavg, durations, results
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
    folder = open_folder(settings, context.run_config)
    watchdog.watch(partial(watchdog.end_run, folder.path))
    log.log(INFO, "Run folder: %s", folder.path)
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
        try:
            run.finish(status, error)
        finally:
            log.log(INFO, "Run folder: %s (%s)", folder.path, status)
            folder.close()


def open_folder(settings: Settings, flat: Flat) -> RunFolder:
    """Return the folder of a new run, or of the one to resume if nothing forbids it."""
    folder = RunFolder(run_path(settings), resume=settings.output.resume)
    try:
        if folder.resumed:
            check_same(read_config(folder.path), flat)
        else:
            folder.write_config(flat, commit=os.environ.get("FEDAPP_COMMIT", ""))
    except BaseException:
        folder.close()
        raise
    return folder


def run_path(settings: Settings) -> Path:
    """Return the run folder's path; relative ones start at the working directory."""
    when = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = settings.output.name or (
        f"{settings.method}-{settings.data.name}-s{settings.seed}-{when}"
    )
    return Path(settings.output.dir).expanduser().absolute() / name


def _initial(
    settings: Settings, image: ImageShape, classes: int, name: str, seed: int
) -> Params:
    """Return the initial state of the run's model, drawn from ``seed``."""
    return state_of(network(settings, image, classes, seed=seed, name=name))


class Run:
    """One run, from settings to summary."""

    def __init__(self, settings: Settings, folder: RunFolder) -> None:
        self.settings = settings
        self.folder = folder
        self.strategy: RoundStrategy | None = None
        self.data: tuple[ImageSet, Manifest] | None = None
        self.ledger = Ledger(folder)
        self.model_bytes = 0
        """The size of the model that all clients have; 0 if they have several."""

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
        cfg: dict[str, Scalar] = {}
        groups: list[int] = []
        sizes: list[int] = []
        if clients.simulated:
            manifest = self._prepare_data()
            image, classes = manifest.image, manifest.classes
            groups = [plan.group for plan in manifest.clients]
            sizes = [len(plan.train) for plan in manifest.clients]
            cfg |= {
                "run-dir": str(self.folder.path),
                "cache-dir": str(cache_folder()),
                "manifest": sha256(manifest.to_json()),
            }
        else:
            data = agreed({name: clients.data.get(name) for name in clients.names})
            image = ImageShape(data.channels, data.height, data.width)
            classes = data.classes
            cfg["run-key"] = run_key(self.folder.path, clients.names, data)
            log.log(INFO, "Devices: %s; each has %s", ", ".join(clients.names), data)
            log.log(INFO, "They bring their data: %s are ignored", ", ".join(IGNORED))
        models = self._models(clients, image)
        start = partial(_initial, settings, image, classes, models[0])
        self.strategy = self._strategy(clients, cfg, groups, sizes, start)
        self.ledger.spent("startup", self.ledger.started)
        initial = start(settings.seed)
        if len(set(models)) == 1:
            self.model_bytes = num_bytes({"model": initial})
        arrays = records.to_record(initial)
        del initial
        self.strategy.start(grid, arrays, num_rounds=rounds.count)

    def _models(self, clients: Clients, image: ImageShape) -> list[str]:
        """Return the model of each client, once it is clear that they go together."""
        net, method = self.settings.model, table()[self.settings.method]
        models = [
            clients.models.get(name) or dealt(client, name=net.name, mix=net.mix)
            for client, name in enumerate(clients.names)
        ]
        if len(set(models)) == 1:
            return models
        log.log(INFO, "Models: %s", in_words(clients.names, models))
        if not may_differ(method, self.settings):
            raise RunStopped(
                f"method {self.settings.method!r} needs the same model on every "
                f"client; these differ: {in_words(clients.names, models)}"
            )
        if method.models == "same-width":
            check_widths(
                clients.names,
                models,
                image,
                projection=net.projection,
                scale=net.width,
            )
        return models

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
            ways_spread=data.ways_spread,
            shots=data.shots,
            shift=data.shift,
            shift_groups=data.shift_groups,
            samples_per_client=data.samples_per_client,
            test_fraction=data.test_fraction,
            official_split=data.official_split,
            augment=data.augment,
            label_fraction=data.label_fraction,
        )
        self._keep(manifest)
        self.data = images, manifest
        for note in manifest.notes:
            log.log(INFO, "data: %s", note)
        return manifest

    def _keep(self, manifest: Manifest) -> None:
        """Write the manifest, or see that a resumed run's is still true."""
        path = self.folder.path / "manifest.json"
        if self.folder.resumed and path.is_file():
            before = Manifest.from_json(path.read_text("utf-8"))
            if before.key != manifest.key:
                raise RunStopped(
                    "the data set has changed since the run began: it was "
                    f"{before.key} and is {manifest.key}; give data.path the files of "
                    "then, or start a new run"
                )
            if before != manifest:
                raise RunStopped(
                    "this release divides the data otherwise than the one that began "
                    "the run; use that one, or start a new run"
                )
        self.folder.text("manifest.json", manifest.to_json())

    def _strategy(
        self,
        clients: Clients,
        cfg: Mapping[str, Scalar],
        groups: list[int],
        sizes: list[int],
        start: Callable[[int], Params],
    ) -> RoundStrategy:
        settings, rounds = self.settings, self.settings.rounds
        shared: dict[str, Any] = {
            "fraction": rounds.fraction,
            "evaluate_every": rounds.evaluate_every,
            "seed": settings.seed,
            "num_clients": settings.data.clients,
            "unseen_clients": settings.data.unseen_clients,
            "min_replies": rounds.min_replies,
            # Without versions of its memory a client cannot start a round anew.
            "retries": 0 if settings.memory.store == "context" else rounds.retries,
            "wait_seconds": rounds.wait_seconds,
            "reply_seconds": rounds.reply_seconds,
            "groups": groups,
            "sizes": sizes,
            "cfg": cfg,
            "other_start": start,
            "folder": self.folder,
            "alive": self._alive,
            "clients": clients,
            "ledger": self.ledger,
            "checkpoint_every": settings.checkpoint.every,
            "label_fraction": settings.data.label_fraction,
        }
        method = table()[settings.method]
        return build(method.server, {**settings.table, **shared})

    def _alive(self) -> None:
        if (self.folder.path / "stop").exists():
            raise Interrupted("somebody asked the run to stop")
        if watchdog.orphaned():
            raise Interrupted("the process that started the run is gone")

    def finish(self, status: str, error: str) -> None:
        """Save the results, write the report, and say that the run has ended.

        The last comes last: whoever waits for the run takes it for its end.
        """
        self._save(status, error)
        if status != "interrupted":
            self._diagnose()
        if self.settings.output.report and status != "interrupted":
            self._say(stage="writing the report")
            try_report(self.folder.path)
        self._say(status=status, error=error or None, stage="")

    def _save(self, status: str, error: str) -> None:
        """Save the tensors of the last whole round and the summary.

        What cannot be written is logged: it must not hide what ended the run.
        """
        try:
            if self.strategy is not None:
                params, state = self.strategy.params, self.strategy.state
                self.folder.tensors("final/params.safetensors", {"params": params})
                self.folder.tensors("final/state.safetensors", state)
            self.folder.json("summary.json", self._summary(status, error))
        except OSError as problem:
            log.log(ERROR, "the end of the run could not be written: %s", problem)
            if status == "completed":
                raise

    def _diagnose(self) -> None:
        """Write what the method shows of a simulation's data; trouble is logged."""
        method = table()[self.settings.method]
        if method.diagnose is None or self.data is None or self.strategy is None:
            return
        algorithm = build(method.client, self.settings.table)
        try:
            found = method.diagnose(algorithm, *self.data, self.strategy.state)
            for file, payload in found.items():
                self.folder.tensors(file, payload)
        except (OSError, ValueError) as problem:
            log.log(WARNING, "no diagnosis was written: %s", problem)

    def _say(self, **news: Any) -> None:
        try:
            self.folder.progress(**news)
        except OSError as problem:
            log.log(ERROR, "progress.json could not be written: %s", problem)

    def _summary(self, status: str, error: str) -> dict[str, Any]:
        ending = {"status": status, "error": error or None}
        strategy = self.strategy
        if strategy is None and self.folder.resumed:
            # The run did not get as far as what is known of it already.
            return self.folder.summary() | ending
        return {
            **ending,
            "method": self.settings.method,
            "seed": self.settings.seed,
            "rounds": strategy.round if strategy is not None else 0,
            "clients": self.settings.data.clients,
            **results(
                self.ledger,
                names=strategy.clients.names if strategy is not None else (),
                groups=strategy.groups if strategy is not None else (),
            ),
            "traffic_vs_fedavg": self._against_fedavg(status),
            "seconds": durations(self.ledger),
        }

    def _against_fedavg(self, status: str) -> float | None:
        if self.strategy is None or status != "completed":
            return None
        return against_fedavg(
            self.ledger,
            model_bytes=self.model_bytes,
            participants=self.strategy.round * len(self.strategy.sample(1)),
        )
