"""Rounds of devices in this process: replies are lost, rounds repeat."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY
from deployment.federation import make_images
from flwr.app import Context, Error, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedapp import client_app as client_app_module
from fedapp.client_app import app as client_app
from fedapp.config import defaults
from fedapp.inline import InlineGrid
from fedapp.server_app import app as server_app

Fate = Callable[[str, int, int], str]
"""What becomes of the training message to (name, round, attempt)."""


def fine(name: str, round_: int, attempt: int) -> str:
    return "fine"


class Devices(InlineGrid):
    """Device ``name`` has node id 100, 101, ...; ``fate`` is fine, lost or away.

    ``lost``: the client works and its reply never comes; ``away``: it never starts.
    """

    def __init__(self, nodes: dict[str, dict[str, Any]], fate: Fate, config) -> None:
        super().__init__(client_app, 0, config)
        self.contexts = {
            100 + index: Context(
                run_id=0,
                node_id=100 + index,
                node_config=node,
                state=RecordDict(),
                run_config=dict(config),
            )
            for index, node in enumerate(nodes.values())
        }
        self._names = dict(zip(self.contexts, nodes, strict=True))
        self._fate, self._attempts = fate, Counter()

    def _run_client(self, message: Message) -> Message:
        name, fate = self._names[message.metadata.dst_node_id], "fine"
        if message.metadata.message_type == MessageType.TRAIN:
            round_ = message.content["cfg"]["round"]
            self._attempts[name, round_] += 1
            fate = self._fate(name, round_, self._attempts[name, round_])
        reply = super()._run_client(message) if fate != "away" else None
        if fate == "fine":
            return reply
        return Message(Error(code=0, reason=fate), reply_to=message)


class Result:
    """A run folder, the devices' memories and the log."""

    def __init__(self, folder: Path, memory: Path, log: str) -> None:
        self.folder, self._memory, self.log = folder, memory, log

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.folder / "summary.json").read_text())

    @property
    def model(self) -> bytes:
        return (self.folder / "final/params.safetensors").read_bytes()

    def memory(self, name: str) -> dict[int, bytes]:
        """Return a device's memory by round."""
        files = self._memory.glob(f"{self.folder.name}-*/{name}/*/*.safetensors")
        return {int(file.name[1:7]): file.read_bytes() for file in sorted(files)}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    base = tmp_path_factory.mktemp("pictures")
    return {
        name: make_images(base / name, first=60 * index, count=60)
        for index, name in enumerate(["anna", "ben", "cleo"])
    }


@pytest.fixture
def devices(tmp_path, pictures, caplog, monkeypatch):
    for name in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)

    def run(
        name: str,
        names: str = "anna ben cleo",
        *,
        fate: Fate = fine,
        change: dict[str, dict[str, Any]] | None = None,
        other: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Result:
        nodes = {
            n: {
                "client-id": n,
                "data-path": str(pictures[n]),
                "memory-path": str(tmp_path / "memory"),
                **(change or {}).get(n, {}),
            }
            for n in names.split()
        }
        if other is not None:
            nodes[names.split()[-1]] = other
        changed = {
            k.replace("__", ".").replace("_", "-"): v for k, v in settings.items()
        }
        config = (
            defaults()
            | TINY
            | {
                "method": "fedper",
                "data.clients": len(nodes),
                "rounds.count": 3,
                "rounds.wait-seconds": 0.2,
                "output.dir": str(tmp_path / "runs"),
                "output.name": name,
            }
            | changed
        )
        context = Context(1, 1, {}, RecordDict(), dict(config))
        caplog.clear()
        try:
            server_app(Devices(nodes, fate, config), context)
        finally:
            found = Result(tmp_path / "runs" / name, tmp_path / "memory", caplog.text)
            run.last = found
        return found

    return run


def test_devices_run_by_their_ids_on_their_own_data(devices):
    found = devices("plain", "ben anna")
    rows = found.summary["per_client"]
    assert [(row["client"], row["name"]) for row in rows] == [(0, "anna"), (1, "ben")]
    assert [row["examples"] for row in rows] == [15, 15]
    # The last round's, and what the two commits that it knew of need.
    assert {*found.memory("anna")} == {*found.memory("ben")} == {1, 2, 3}
    assert not (found.folder / "memory").exists()
    assert found.log.count("data.partition") == 1


def test_a_device_knows_that_it_is_no_simulation(devices, monkeypatch):
    """Noise that protects somebody must not follow from the seed there."""
    simulated, build_task = [], client_app_module.build_task

    def watched(*args):
        task, test = build_task(*args)
        simulated.append(task.simulated)
        return task, test

    monkeypatch.setattr(client_app_module, "build_task", watched)
    devices("plain", "ben anna", rounds__count=1)
    assert simulated
    assert not any(simulated)


def test_a_round_that_is_repeated_gives_what_it_gives_undisturbed(devices):
    calm = devices("calm", rounds__min_replies=1.0)

    def ben_is_lost_twice(name, round_, attempt):
        return "lost" if (name, round_) == ("ben", 2) and attempt < 3 else "fine"

    storm = devices("storm", fate=ben_is_lost_twice, rounds__min_replies=1.0)
    assert storm.model == calm.model
    for name in ("anna", "ben", "cleo"):
        assert storm.memory(name) == calm.memory(name)
    failed = [(f["round"], f["client"]) for f in storm.summary["failures"]]
    assert failed == [(2, 1), (2, 1)]
    assert storm.log.count("It is repeated") == 2


def test_what_a_failed_attempt_left_in_memory_is_not_built_upon(devices):
    def anna_is_away(name, round_, attempt):
        return "away" if (name, round_) == ("anna", 2) else "fine"

    def anna_takes_part_in_the_failed_attempt_only(name, round_, attempt):
        if round_ != 2:
            return "fine"
        first = attempt == 1
        return {"anna": "fine" if first else "away"}.get(
            name, "away" if first else "fine"
        )

    share = {"rounds__min_replies": 0.6}
    calm = devices("calm", fate=anna_is_away, **share)
    storm = devices("storm", fate=anna_takes_part_in_the_failed_attempt_only, **share)
    assert storm.log.count("It is repeated") == 1
    assert storm.model == calm.model
    assert storm.memory("anna") == calm.memory("anna")
    assert {*storm.memory("anna")} == {1, 3}


def test_what_a_late_reply_left_in_memory_is_not_built_upon(devices):
    def anna(fate):
        return lambda name, round_, _: fate if (name, round_) == ("anna", 2) else "fine"

    calm, storm = (devices(fate, fate=anna(fate)) for fate in ("away", "lost"))
    assert storm.model == calm.model
    assert storm.memory("anna") == calm.memory("anna")
    assert storm.summary["accuracy"] == calm.summary["accuracy"]


def test_scores_of_a_round_use_the_memory_that_goes_with_it(devices):
    def ben_is_lost(name, round_, attempt):
        return "lost" if (name, round_) == ("ben", 2) else "fine"

    def ben_is_away(name, round_, attempt):
        return "away" if (name, round_) == ("ben", 2) else "fine"

    lost = devices("lost", fate=ben_is_lost, rounds__count=2)
    away = devices("away", fate=ben_is_away, rounds__count=2)
    assert lost.summary["per_client"] == away.summary["per_client"]


def test_half_of_the_devices_are_enough(devices):
    def ben_is_away(name, round_, attempt):
        return "away" if name == "ben" else "fine"

    found = devices("half", "anna ben", fate=ben_is_away)
    assert found.summary["status"] == "completed"
    assert [row["trained"] for row in found.summary["per_client"]] == [True, False]
    assert len(found.summary["failures"]) == 3


def test_a_round_does_not_wait_for_newcomers_that_are_away(devices):
    def cleo_is_away(name, round_, attempt):
        return "away" if name == "cleo" else "fine"

    found = devices(
        "newcomer",
        "anna ben cleo",
        fate=cleo_is_away,
        method="hdc-fl",
        data__unseen_clients=1,
        hdc_fl__newcomer_epochs=1,
        rounds__retries=0,
    )
    assert found.summary["status"] == "completed"
    assert [row["trained"] for row in found.summary["per_client"]] == [1, 1, 0]
    failures = [(f["phase"], f["client"]) for f in found.summary["failures"]]
    assert failures == [("newcomers", 2)] * 3
    with pytest.raises(RuntimeError, match=r"round 1, phase newcomers: 0 of 1"):
        devices(
            "every",
            fate=cleo_is_away,
            method="hdc-fl",
            data__unseen_clients=1,
            hdc_fl__newcomer_epochs=1,
            rounds__min_replies=1.0,
            rounds__retries=0,
        )


def test_a_run_stops_when_repeating_does_not_help(devices):
    def ben_is_away(name, round_, attempt):
        return "away" if (name, round_) == ("ben", 2) else "fine"

    with pytest.raises(RuntimeError, match=r"round 2, phase train: 1 of 2"):
        devices(
            "hopeless",
            "anna ben",
            fate=ben_is_away,
            rounds__min_replies=1.0,
            rounds__retries=2,
        )
    summary = devices.last.summary
    assert (summary["status"], summary["rounds"]) == ("failed", 1)
    assert len(summary["failures"]) == 3
    assert "client ben: Flower reports: away" in summary["error"]


def test_without_versions_of_a_memory_nothing_is_repeated(devices):
    def ben_is_away(name, round_, attempt):
        return "away" if (name, round_) == ("ben", 2) else "fine"

    with pytest.raises(RuntimeError, match=r"round 2"):
        devices(
            "context",
            "anna ben",
            fate=ben_is_away,
            rounds__min_replies=1.0,
            memory__store="context",
        )
    assert len(devices.last.summary["failures"]) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data-path": ""}, ["1 clients are there", "'ben' has no data-path"]),
        ({"data-path": "/nowhere"}, ["client 'ben': its data cannot be used"]),
        ({"client-id": "a/b"}, ["client-id 'a/b'", "no slashes"]),
        ({"client-id": "anna"}, ["two nodes say they are client 'anna'"]),
    ],
    ids=["no-path", "no-folder", "slash", "taken"],
)
def test_what_is_wrong_with_a_device_is_told_with_its_id(devices, change, words):
    with pytest.raises(RuntimeError) as caught:
        devices("wrong", "anna ben", change={"ben": change})
    for word in words:
        assert word in str(caught.value)
    assert "/nowhere" not in str(caught.value)
    assert devices.last.summary["status"] == "failed"
    assert devices.last.summary["error"] == str(caught.value)


def test_a_node_of_another_app_beside_devices_is_refused(devices):
    with pytest.raises(RuntimeError, match="'anna' is a device, but node '3' has"):
        devices("mixed", "anna ben", other={"partition-id": 3, "num-partitions": 2})


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ({"label": lambda i: f"class {i}"}, "'ben': 1x8x8"),
        ({"size": 9}, "'ben': 1x9x9"),
    ],
    ids=["names", "size"],
)
def test_devices_with_other_data_are_refused_by_name(devices, tmp_path, images, words):
    other = make_images(tmp_path / "other", first=0, count=60, **images)
    with pytest.raises(ValueError, match="different data") as caught:
        devices("differ", change={"ben": {"data-path": str(other)}})
    assert "'anna', 'cleo': 1x8x8" in str(caught.value)
    assert words in str(caught.value)


def test_devices_may_have_models_of_their_own(devices):
    found = devices(
        "models",
        change={"anna": {"model-name": "cnn-small"}, "ben": {"model-name": "cnn"}},
        method="fedsap",
        model__projection=16,
        rounds__count=2,
    )
    assert found.summary["status"] == "completed"
    assert "Models: cnn-small: anna; cnn: ben; mlp: cleo" in found.log
    assert found.summary["failures"] == []


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"method": "fedsap"},
            r"client anna \(mlp\) has 200 .* client ben \(cnn\) 512",
        ),
        ({"method": "fedavg"}, r"'fedavg' needs the same model .*cnn: ben"),
    ],
)
def test_models_that_do_not_go_together_are_refused_with_names(
    devices, settings, problem
):
    with pytest.raises(Exception, match=problem):
        devices("refused", change={"ben": {"model-name": "cnn"}}, **settings)


def test_one_other_model_for_all_devices_serves_any_method(devices):
    own = {name: {"model-name": "cnn-small"} for name in ("anna", "ben", "cleo")}
    found = devices("small", change=own, method="fedavg", rounds__count=1)
    plain = devices("plain", method="fedavg", model__name="cnn-small", rounds__count=1)
    assert found.model == plain.model


def test_a_device_with_an_unknown_model_takes_no_part(devices):
    with pytest.raises(Exception, match=r"client 'ben': model-name 'cnnn' in the node"):
        devices("unknown", change={"ben": {"model-name": "cnnn"}})


def test_the_next_run_in_the_same_process_splits_the_data_as_it_is_set(devices):
    """Samples kept from the run before would put tests among the training data."""
    tested = [
        [
            row["examples"]
            for row in devices(
                f"share-{share}",
                "ben anna",
                rounds__count=1,
                data__test_fraction=share,
            ).summary["per_client"]
        ]
        for share in (0.25, 0.5)
    ]
    assert tested == [[15, 15], [30, 30]]
