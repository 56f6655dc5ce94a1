"""What a client process builds once and uses for many messages: data and models."""

import functools
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from fedapp.algorithm import LocalTask, Scalars
from fedapp.config import DataSettings, ModelSettings, Scalar, Settings
from fedapp.data.clients import (
    ClientCache,
    ClientData,
    Manifest,
    client_samples,
    local_samples,
)
from fedapp.data.images import ImageSet, load_images, open_cached
from fedapp.data.samples import Samples
from fedapp.devices import data_path
from fedapp.files import sha256
from fedapp.memory import Who
from fedapp.methods import change_of, check_settings
from fedapp.model_mix import dealt
from fedapp.models import MODELS, Change, Classifier, ImageShape, build, state_of
from fedapp.params import Params, Payload

CACHE = ClientCache()


def cache_folder() -> Path:
    """Return where decoded data sets lie: FEDAPP_CACHE, or the user's cache folder."""
    given = os.environ.get("FEDAPP_CACHE")
    if given:
        return Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "fedapp"


@functools.lru_cache(maxsize=4)
def _settings(items: tuple[tuple[str, Scalar], ...]) -> Settings:
    return check_settings(dict(items))


def settings_from(config: Mapping[str, Scalar]) -> Settings:
    """Return the checked settings of a run config; checked once per process."""
    return _settings(tuple(sorted(config.items())))


def device_of(settings: Settings) -> torch.device:
    """Return where this process trains: the GPU it was given, else the CPU."""
    wanted = settings.local.device
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "local.device = 'cuda', but this worker has no GPU: give clients a share "
            "of one (fedapp run --gpus-per-client 0.2), or use 'auto'"
        )
    use = wanted == "cuda" or (wanted == "auto" and torch.cuda.is_available())
    return torch.device("cuda" if use else "cpu")


def prepare_process(settings: Settings, *, seed: int) -> None:
    """Set threads, kernels and the global generator (dropout needs it) for one task."""
    torch.set_num_threads(settings.local.threads)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(seed)


@functools.lru_cache(maxsize=8)
def scratch_model(
    name: str,
    image: ImageShape,
    classes: int,
    seed: int,
    device: torch.device,
    wanted: ModelSettings,
    change: Change | None,
) -> tuple[Classifier, Params]:
    """Return a model to work in and the common initial state; built once."""
    model = build(
        name,
        image,
        classes,
        seed=seed,
        width=wanted.width,
        projection=wanted.projection,
        change=change,
    )
    initial = state_of(model)
    model = model.to(device)
    if any(isinstance(module, nn.Conv2d) for module in model.modules()):
        model = model.to(memory_format=torch.channels_last)
    return model, initial


@functools.lru_cache(maxsize=2)
def _manifest(run_dir: str, digest: str) -> Manifest:
    try:
        text = (Path(run_dir) / "manifest.json").read_text("utf-8")
    except FileNotFoundError:
        raise ValueError(
            f"{run_dir}/manifest.json is not on this machine: a node without client-id "
            "and data-path takes part as in a simulation, beside the server's files"
        ) from None
    if sha256(text) != digest:
        raise ValueError(f"{run_dir}/manifest.json has changed since the run began")
    return Manifest.from_json(text)


@functools.lru_cache(maxsize=2)
def _images(cache: str, key: str) -> ImageSet:
    return open_cached(Path(cache), key)


@functools.lru_cache(maxsize=1)
def device_images(data: DataSettings, path: str) -> ImageSet:
    """Return a device's own images, at the ``data-path`` of its node config."""
    return load_images(
        data.name,
        path=path,
        image_column=data.image_column,
        label_column=data.label_column,
        client_column=data.client_column,
        cache=cache_folder(),
    )


def _simulated_data(cfg: Scalars, client: int) -> tuple[ClientData, ImageShape, int]:
    run_dir, digest = str(cfg["run-dir"]), str(cfg["manifest"])
    manifest = _manifest(run_dir, digest)
    images = _images(str(cfg["cache-dir"]), manifest.key)
    data = CACHE.get((digest, client), lambda: client_samples(images, manifest, client))
    return data, manifest.image, manifest.classes


def _device_data(settings: Settings, path: str) -> tuple[ClientData, ImageShape, int]:
    images, data = device_images(settings.data, path), settings.data
    found = CACHE.get(
        (
            images.key,
            settings.seed,
            data.test_fraction,
            data.augment,
            data.label_fraction,
        ),
        lambda: local_samples(
            images,
            test_fraction=data.test_fraction,
            seed=settings.seed,
            augment=data.augment,
            label_fraction=data.label_fraction,
        ),
    )
    return found, ImageShape(*images.images.shape[1:]), images.classes


def own_model(node: Mapping[str, Scalar]) -> str:
    """Return the ``model-name`` of a device's node config, empty if it has none.

    Raises
    ------
    ValueError
        If there is no model of that name.
    """
    name = str(node.get("model-name", "")).strip()
    if name and name not in MODELS:
        raise ValueError(
            f"model-name {name!r} in the node config: expected one of "
            f"{', '.join(MODELS)}"
        )
    return name


def build_task(
    settings: Settings,
    who: Who,
    node: Mapping[str, Scalar],
    received: Payload,
    cfg: Scalars,
    scalars: Scalars,
) -> tuple[LocalTask, Samples]:
    """Return the task of one message, and the test samples it must not see."""
    client = int(cfg["client"])
    if who.simulated:
        data, image, classes = _simulated_data(cfg, client)
    else:
        data, image, classes = _device_data(settings, data_path(node, who.name))
    device, net = device_of(settings), settings.model
    name = "" if who.simulated else own_model(node)
    model, initial = scratch_model(
        name or dealt(client, name=net.name, mix=net.mix),
        image,
        classes,
        settings.seed,
        device,
        net,
        change_of(settings),
    )
    local = settings.local
    task = LocalTask(
        model=model,
        initial=initial,
        received=received,
        labelled=data.train.to(device),
        unlabelled=data.unlabelled.to(device) if data.unlabelled else None,
        classes=classes,
        seed=settings.seed,
        client=client,
        lr=local.lr,
        epochs=local.epochs,
        batch_size=local.batch_size,
        scalars=scalars,
        phase=str(cfg["phase"]),
        round=int(cfg["round"]),
        momentum=local.momentum,
        weight_decay=local.weight_decay,
        simulated=who.simulated,
        bfloat16=local.precision == "bfloat16" and device.type == "cuda",
    )
    return task, data.test.to(device)
