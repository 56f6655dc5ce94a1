"""A run that is interrupted anywhere and resumed has the bits of one that was not."""

import importlib

import numpy as np
import pytest
import torch
from conftest import Finished
from fedapp_plugin_example.neighbours import METHOD

from fedapp import methods
from fedapp.methods import METHODS


@pytest.fixture(autouse=True)
def _dummy(monkeypatch):
    monkeypatch.setattr(methods, "METHODS", {**METHODS, "neighbours": METHOD})
    methods.table.cache_clear()
    yield
    methods.table.cache_clear()


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it and tidy up."""


MOMENTS = {
    "in a reply": ("fedapp.post.check_update", 9),
    "writing a bank row": ("fedapp.bank.Versions.write", 8),
    "in evaluation": ("fedapp.ledger.Ledger.scored", 2),
    "before the tensors of a commit": ("fedapp.checkpoint.write_tensors", 4),
    "before the commit file": ("fedapp.checkpoint.write_json", 2),
    "after the commit file": ("fedapp.checkpoint.Checkpoints._delete", 1),
    "before a client's memory": ("fedapp.memory.FolderMemory.save", 8),
    "in a table": ("fedapp.run_folder.RunFolder.row", 31),
}

SETTINGS = {"rounds__count": 4, "rounds__fraction": 0.67, "local__lr": 0.02}


@pytest.fixture
def killed(run, monkeypatch):
    """Run and die at the n-th call of a function; undo what tidied up in dying."""

    def start(method: str, target: str, count: int, **settings) -> Finished | None:
        path, _, attribute = target.rpartition(".")
        module = importlib.import_module
        try:
            owner = module(path)
        except ModuleNotFoundError:
            path, _, name = path.rpartition(".")
            owner = getattr(module(path), name)
        original = getattr(owner, attribute)
        calls = 0

        def dying(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == count:
                raise Killed
            return original(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(owner, attribute, dying)
            # What a killed process cannot do: write an ending.
            patch.setattr("fedapp.server_app.Run.finish", lambda *_: None)
            try:
                return run(method, name="broken", **settings)
            except Killed:
                return None

    return start


WITHOUT = {
    "writing a bank row": ("fedavg", "fedper"),
    "before a client's memory": ("fedavg", "neighbours"),
}
"""Methods in which a moment never comes."""

CASES = [
    (method, moment)
    for method in ("fedavg", "fedper", "hdc-fl", "neighbours")
    for moment in MOMENTS
    if method not in WITHOUT.get(moment, ())
]


@pytest.mark.parametrize(("method", "moment"), CASES)
def test_a_resumed_run_has_the_bits_of_an_undisturbed_one(run, killed, method, moment):
    whole = run(method, name="whole", **SETTINGS)
    assert killed(method, *MOMENTS[moment], **SETTINGS) is None
    done = run(method, name="broken", output__resume=True, **SETTINGS)
    assert done.bits() == whole.bits()
    assert done.summary["accuracy"] == whole.summary["accuracy"]
    assert done.summary["traffic"] == whole.summary["traffic"]
    assert done.summary["per_client"] == whole.summary["per_client"]


def test_two_interruptions_change_nothing_either(run, killed):
    whole = run("hdc-fl", name="whole", **SETTINGS)
    assert killed("hdc-fl", *MOMENTS["in a reply"], **SETTINGS) is None
    later = ("fedapp.post.check_update", 12)
    again = killed("hdc-fl", *later, output__resume=True, **SETTINGS)
    assert again is None
    done = run("hdc-fl", name="broken", output__resume=True, **SETTINGS)
    assert done.bits() == whole.bits()


def test_newcomers_of_an_interrupted_phase_are_asked_again(run, killed):
    settings = {**SETTINGS, "data__unseen_clients": 2, "hdc_fl__newcomer_epochs": 1}
    whole = run("hdc-fl", name="whole", **settings)
    # A round checks three that train, three newcomers (later two), six evaluations.
    moment = ("fedapp.post.check_update", 12 + 3 + 2)
    assert killed("hdc-fl", *moment, **settings) is None
    broken = Finished(whole.path.parent / "broken").rows("timing.csv")
    assert (broken[-1]["round"], broken[-1]["phase"]) == ("2", "newcomers")
    done = run("hdc-fl", name="broken", output__resume=True, **settings)
    assert done.bits() == whole.bits()
    assert done.summary["unseen"] == whole.summary["unseen"]


def test_prototypes_thresholds_and_their_tables_go_on(run, killed):
    settings = {
        **SETTINGS,
        "data__label_fraction": 0.4,
        "fedsap__supervised": 0.25,
        "fedsap__ramp": 1,
        "fedsap__proxies": "learned",
    }
    whole = run("fedsap", name="whole", **settings)
    third = ("fedapp.post.check_update", 23)
    assert killed("fedsap", *third, **settings) is None
    done = run("fedsap", name="broken", output__resume=True, **settings)
    assert done.bits() == whole.bits()
    assert "fedsap/pseudo_labels.csv" in done.bits()


@pytest.mark.parametrize(
    ("method", "round_", "phase"),
    [
        ("pacfl", 1, "signature"),
        ("pacfl", 3, "train"),
        ("emd-cfl", 1, "embed"),
        ("emd-cfl", 2, "embed"),
        ("fedsoft", 3, "estimate"),
        ("fedce", 2, "train"),
    ],
)
def test_methods_with_several_models_go_on(run, killed, method, round_, phase):
    settings = {**SETTINGS, "rounds__fraction": 0.5}
    whole = run(method, name="whole", **settings)
    checked = [
        (row["round"], row["phase"])
        for row in whole.rows("timing.csv")
        if row["client"]
    ]
    second = checked.index((str(round_), phase)) + 2
    assert killed(method, "fedapp.post.check_update", second, **settings) is None
    done = run(method, name="broken", output__resume=True, **settings)
    assert done.bits() == whole.bits()
    assert any(name.startswith(f"{method}/") for name in done.bits())


def test_commits_every_other_round_give_the_same_results(run, killed):
    settings = {**SETTINGS, "checkpoint__every": 3, "rounds__count": 5}
    whole = run("hdc-fl", name="whole", **SETTINGS | {"rounds__count": 5})
    moment = ("fedapp.post.check_update", 5 * 8)
    assert killed("hdc-fl", *moment, **settings) is None
    done = run("hdc-fl", name="broken", output__resume=True, **settings)
    for file in ("metrics.csv", "hdc-fl/refreshes.csv", "final/params.safetensors"):
        assert (done.path / file).read_bytes() == (whole.path / file).read_bytes()


def test_a_torn_newest_commit_costs_a_round_and_no_bits(run, killed):
    whole = run("hdc-fl", name="whole", **SETTINGS)
    assert killed("hdc-fl", "fedapp.post.check_update", 30, **SETTINGS) is None
    folder = whole.path.parent / "broken" / "checkpoint"
    newest = sorted(folder.glob("*-params.safetensors"))[-1]
    newest.write_bytes(newest.read_bytes()[:-3])
    done = run("hdc-fl", name="broken", output__resume=True, **SETTINGS)
    assert done.bits() == whole.bits()


def test_a_setting_that_matters_is_refused_by_name(run, killed):
    assert killed("fedavg", *MOMENTS["in a reply"], **SETTINGS) is None
    before = dict(SETTINGS, local__lr=0.5)
    with pytest.raises(ValueError, match=r"local\.lr is 0\.5, but .* began with 0\.02"):
        run("fedavg", name="broken", output__resume=True, **before)


def test_settings_that_change_no_bit_may_differ(run, killed):
    assert killed("fedavg", *MOMENTS["in a reply"], **SETTINGS) is None
    after = dict(SETTINGS, rounds__wait_seconds=7.0, checkpoint__every=2)
    done = run("fedavg", name="broken", output__resume=True, **after)
    assert done.summary["status"] == "completed"


def test_a_completed_run_is_left_alone(run):
    done = run("fedavg", name="done")
    before = (done.path / "summary.json").read_bytes()
    with pytest.raises(ValueError, match="has completed"):
        run("fedavg", name="done", output__resume=True)
    assert (done.path / "summary.json").read_bytes() == before


def test_a_folder_that_is_none_is_refused(run):
    with pytest.raises(ValueError, match="not a run folder"):
        run("fedavg", name="nothing", output__resume=True)


def test_a_folder_in_use_is_refused_and_its_summary_kept(run, killed, tmp_path):
    from filelock import FileLock

    assert killed("fedavg", *MOMENTS["in a reply"], **SETTINGS) is None
    with (
        FileLock(tmp_path / "broken" / "lock"),
        pytest.raises(RuntimeError, match="another process"),
    ):
        run("fedavg", name="broken", output__resume=True, **SETTINGS)


def test_data_that_changed_is_refused_and_results_kept(run, killed, tmp_path):
    settings = {**SETTINGS, "data__name": "custom", "data__shift": "none"}

    def write(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        images = torch.randint(0, 256, (300, 8, 8), generator=generator).byte().numpy()
        labels = (torch.arange(300) % 4).numpy()
        np.savez(tmp_path / "data.npz", images=images, labels=labels)

    settings["data__path"] = str(tmp_path / "data.npz")
    write(1)
    assert killed("fedavg", *MOMENTS["in evaluation"], **settings) is None
    (tmp_path / "broken" / "summary.json").write_text('{"rounds": 1}')
    write(2)
    with pytest.raises(RuntimeError, match="data set has changed"):
        run("fedavg", name="broken", output__resume=True, **settings)
    summary = Finished(tmp_path / "broken").summary
    assert (summary["rounds"], summary["status"]) == (1, "failed")
    write(1)
    done = run("fedavg", name="broken", output__resume=True, **settings)
    assert done.summary["status"] == "completed"
