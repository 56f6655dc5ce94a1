"""The ClientApp: message in, algorithm called, reply out.

It answers three kinds of message: ``query`` (who are you), ``train`` (any phase that
may learn) and ``evaluate``. Errors become replies that say what went wrong.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from logging import ERROR, getLogger
from pathlib import Path

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedapp import records, watchdog
from fedapp.algorithm import LocalAlgorithm, LocalTask, Scalars, Update, score, seeded
from fedapp.config import Settings, build
from fedapp.data.samples import Samples
from fedapp.ledger import score_metrics
from fedapp.memory import FolderMemory, MemoryStore, who_am_i
from fedapp.methods import table
from fedapp.params import first_non_finite
from fedapp.versions import Version
from fedapp.workplace import (
    build_task,
    describe_images,
    device_images,
    prepare_process,
    settings_from,
)

log = getLogger("flwr")

app = ClientApp()

Answer = Callable[[LocalAlgorithm, LocalTask, Samples, MemoryStore, Version], Update]


@app.query()
def query(message: Message, context: Context) -> Message:
    """Say which client this is and, on a device, what its images look like."""
    who = who_am_i(context.node_config)
    if not who.simulated:
        images = device_images(
            settings_from(context.run_config), str(context.node_config["data-path"])
        )
        who = replace(who, images=describe_images(images))
    return Message(records.who_reply(who), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Run the algorithm on one message and remember what it says."""
    return _answer(message, context, _train)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Score the algorithm's predictors on the client's test samples."""
    return _answer(message, context, _evaluate)


def _answer(message: Message, context: Context, answer: Answer) -> Message:
    watchdog.watch(watchdog.end_worker)
    started = time.perf_counter()
    received, cfg, scalars = records.read_request(message.content)
    client = int(cfg["client"])
    try:
        settings = settings_from(context.run_config)
        who = who_am_i(context.node_config)
        task, test = build_task(
            settings, who, context.node_config, received, cfg, scalars
        )
        seed = seeded(settings.seed, client, task.round).initial_seed()
        prepare_process(settings, seed=seed)
        method = table()[settings.method]
        algorithm = build(method.client, settings.table)
        store = _memory(settings, cfg, context, client)
        version = (task.round, int(cfg["step"]))
        update = answer(algorithm, task, test, store, version)
    # Whatever went wrong, the server must learn what and whose it was.
    except Exception as error:
        log.log(ERROR, "client %s: %s", client, error, exc_info=error)
        cause = f"{type(error).__name__}: {error}"
        return Message(records.error_reply(cause, client=client), reply_to=message)
    seconds = time.perf_counter() - started
    content = records.reply(update, client=client, seconds=seconds)
    return Message(content, reply_to=message)


def _memory(
    settings: Settings, cfg: Scalars, context: Context, client: int
) -> MemoryStore:
    if settings.memory.store == "context":
        return records.ContextMemory(context.state)
    home = context.node_config.get("memory-path")
    commits = [int(word) for word in str(cfg["commits"]).split()]
    if "data-path" in context.node_config:
        folder = Path(str(home or Path.home() / ".fedapp" / "memory")).expanduser()
        return FolderMemory(folder / str(cfg["run-id"]), client, commits=commits)
    folder = Path(str(cfg["run-dir"])) / "memory"
    return FolderMemory(folder, client, commits=commits)


def _train(
    algorithm: LocalAlgorithm,
    task: LocalTask,
    test: Samples,
    store: MemoryStore,
    version: Version,
) -> Update:
    del test
    memory = store.load(version)
    update, after = algorithm.train(task, memory)
    # A memory with a NaN would ruin this client for good; a failed reply only once.
    bad = first_non_finite(update.sent) or first_non_finite(after)
    if bad is not None:
        raise FloatingPointError(
            f"{bad} is not finite after training; lower local.lr (now {task.lr:g})"
        )
    if after is not memory:
        store.save(version, after)
    return update


def _evaluate(
    algorithm: LocalAlgorithm,
    task: LocalTask,
    test: Samples,
    store: MemoryStore,
    version: Version,
) -> Update:
    # Memory written in this round counts: any phase of it comes before evaluation.
    memory = store.load((version[0] + 1, 0))
    metrics: dict[str, float] = {}
    task.model.eval()
    with torch.no_grad():
        predictors = enumerate(algorithm.predictors(task, memory))
        for index, (name, predictor) in predictors:
            correct, loss = score(predictor, test)
            metrics |= score_metrics(index, name, correct, loss)
    return Update({}, len(test), metrics)
