"""The ClientApp: message in, algorithm called, reply out.

It answers three kinds of message: ``query`` (who are you), ``train`` (any phase that
may learn) and ``evaluate``. Errors become replies that say what went wrong.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from logging import ERROR, INFO, getLogger
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedapp import records, watchdog
from fedapp.algorithm import (
    LocalAlgorithm,
    LocalTask,
    Scalars,
    Update,
    score_all,
    seeded,
)
from fedapp.config import Settings, build
from fedapp.data.samples import Samples
from fedapp.devices import (
    data_path,
    describe,
    is_device,
    memory_folder,
    shareable,
)
from fedapp.ledger import score_metrics
from fedapp.memory import FolderMemory, MemoryStore, Who, who_am_i
from fedapp.methods import table
from fedapp.params import first_non_finite
from fedapp.versions import Version
from fedapp.workplace import (
    build_task,
    device_images,
    own_model,
    prepare_process,
    settings_from,
)

log = getLogger("flwr")

app = ClientApp()

Answer = Callable[
    [LocalAlgorithm, LocalTask, Samples, MemoryStore, Version, Version], Update
]


@app.query()
def query(message: Message, context: Context) -> Message:
    """Say which client this is and, on a device, what its data is like."""
    return Message(records.who_reply(_introduce(context)), reply_to=message)


def _introduce(context: Context) -> Who:
    try:
        who = who_am_i(context.node_config)
    except ValueError as error:
        return Who("", simulated=False, problem=str(error))
    if who.simulated:
        return who
    try:
        path = data_path(context.node_config, who.name)
        who = replace(who, model=own_model(context.node_config))
    except ValueError as error:
        return replace(who, problem=str(error))
    try:
        images = device_images(settings_from(context.run_config).data, path)
    # Whatever is wrong with the data, the server must learn whose it is.
    except Exception as error:
        log.log(ERROR, "the data of device %r cannot be used: %s", who.name, error)
        return replace(who, problem=f"its data cannot be used: {shareable(error)}")
    log.log(INFO, "device %r has the classes %s", who.name, ", ".join(images.names))
    return replace(who, data=describe(images))


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
    client, device = int(cfg["client"]), is_device(context.node_config)
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
        store = _memory(settings, who, cfg, context, client)
        version = (task.round, int(cfg["step"]))
        held = (int(cfg["held-round"]), int(cfg["held-step"]))
        update = answer(algorithm, task, test, store, held, version)
    # Whatever went wrong, the server must learn what and whose it was.
    except Exception as error:
        log.log(ERROR, "client %s: %s", client, error, exc_info=error)
        cause = shareable(error) if device else f"{type(error).__name__}: {error}"
        return Message(records.error_reply(cause, client=client), reply_to=message)
    seconds = time.perf_counter() - started
    content = records.reply(update, client=client, seconds=seconds)
    return Message(content, reply_to=message)


def _memory(
    settings: Settings, who: Who, cfg: Scalars, context: Context, client: int
) -> MemoryStore:
    if settings.memory.store == "context":
        return records.ContextMemory(context.state)
    commits = [int(word) for word in str(cfg["commits"]).split()]
    if not who.simulated:
        key = str(cfg["run-key"])
        home = memory_folder(context.node_config, who.name, key)
        return FolderMemory(home, client, commits=commits)
    folder = Path(str(cfg["run-dir"])) / "memory"
    return FolderMemory(folder, client, commits=commits)


def _train(
    algorithm: LocalAlgorithm,
    task: LocalTask,
    test: Samples,
    store: MemoryStore,
    held: Version,
    version: Version,
) -> Update:
    del test
    # What the server did not take, because the reply came late or the round was
    # repeated, is newer than what it holds: it must not be built upon.
    memory = store.load(_after(held))
    update, after = algorithm.train(task, memory)
    # A memory with a NaN would ruin this client for good; a failed reply only once.
    bad = first_non_finite(update.sent) or first_non_finite(after)
    if bad is not None:
        raise FloatingPointError(
            f"{bad} is not finite after training; lower local.lr (now {task.lr:g})"
        )
    if after is not memory:
        store.drop(after=held, before=version)
        store.save(version, after)
    return update


def _evaluate(
    algorithm: LocalAlgorithm,
    task: LocalTask,
    test: Samples,
    store: MemoryStore,
    held: Version,
    version: Version,
) -> Update:
    del version
    memory = store.load(_after(held))
    metrics: dict[str, float] = {}
    found = score_all(algorithm, task, memory, test)
    for index, (name, correct, loss) in enumerate(found):
        metrics |= score_metrics(index, name, correct, loss)
    return Update({}, len(test), metrics)


def _after(version: Version) -> Version:
    return version[0], version[1] + 1
