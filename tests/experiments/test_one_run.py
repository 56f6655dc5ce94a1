"""The process of one run: what it does, skips, removes and refuses."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from table_files import cell, table, tiny_config

from experiments import child, work
from experiments.identity import code_of
from experiments.plan import plan
from experiments.store import Run, finished, result_of
from fedapp.data.images import load_images
from fedapp.launch import read_json
from fedapp.workplace import cache_folder


@pytest.fixture
def order(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Return the order of a tiny run; keywords replace its entries."""
    columns = dict.fromkeys(("image_column", "label_column", "client_column"), "")
    data = load_images("digits", path="", cache=cache_folder(), **columns)

    def make(**changes: Any) -> dict[str, Any]:
        facts = {"identity": "one", "code": code_of("fedavg"), "data": data.key}
        return {"config": tiny_config(tmp_path / "run"), **facts, **changes}

    return make


def bits(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return {str(f): (f.stat().st_mtime_ns, f.read_bytes()) for f in files}


def test_a_run_is_recorded_when_it_is_whole(tmp_path: Path, order):
    child.do(order())
    assert finished(tmp_path / "run", "one")
    record = read_json(tmp_path / "run" / "experiment.json")
    assert record["code"] == code_of("fedavg")
    assert record["data"].startswith("digits-")
    assert "cores" in record["hardware"]


def test_a_finished_run_is_not_done_again(tmp_path: Path, order):
    child.do(order())
    before = bits(tmp_path / "run")
    child.do(order())
    assert bits(tmp_path / "run") == before


@pytest.mark.parametrize("status", ["running", "interrupted", "failed", "completed"])
def test_what_was_left_of_an_unfinished_run_is_replaced(
    tmp_path: Path, order, status: str
):
    """A run that was completed but not recorded may be of other data."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "summary.json").write_text(json.dumps({"status": status}))
    (tmp_path / "run" / "left").touch()
    child.do(order())
    assert finished(tmp_path / "run", "one")
    assert not (tmp_path / "run" / "left").exists()


@pytest.fixture
def stopped(tmp_path: Path, order, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the order of a run of six rounds that was stopped in its fourth."""
    from strategies.fedavg import FedAvg

    long = order()
    long["config"] = {**long["config"], "rounds.count": 6}
    update = FedAvg.update

    def until_fourth(self, params, state, updates, turn):
        if turn.round == 4:
            raise KeyboardInterrupt
        return update(self, params, state, updates, turn)

    with monkeypatch.context() as patch:
        patch.setattr(FedAvg, "update", until_fourth)
        with pytest.raises(KeyboardInterrupt):
            child.do(long)
    return long


def test_an_unfinished_run_goes_on(tmp_path: Path, stopped, order):
    child.do(stopped)
    assert finished(tmp_path / "run", "one")
    whole = order()
    whole["config"] = {**stopped["config"], "output.name": "whole"}
    child.do(whole)
    for name in ("metrics.csv", "final/params.safetensors"):
        one, two = ((tmp_path / run / name).read_bytes() for run in ("run", "whole"))
        assert one == two


def test_an_unfinished_run_is_not_computed_from_the_start(
    stopped, monkeypatch: pytest.MonkeyPatch
):
    from strategies.fedavg import FedAvg

    update, rounds = FedAvg.update, []

    def noting(self, params, state, updates, turn):
        rounds.append(turn.round)
        return update(self, params, state, updates, turn)

    monkeypatch.setattr(FedAvg, "update", noting)
    child.do(stopped)
    assert rounds == [4, 5, 6]


def test_an_unfinished_run_of_other_settings_is_replaced(tmp_path: Path, stopped):
    config = {**stopped["config"], "local.lr": 0.3}
    child.do({**stopped, "config": config})
    assert finished(tmp_path / "run", "one")
    assert "lr = 0.3" in (tmp_path / "run" / "config.toml").read_text()


def test_a_run_of_another_identity_or_with_damaged_files_is_not_finished(
    tmp_path: Path, order
):
    child.do(order())
    record = tmp_path / "run" / "experiment.json"
    assert not finished(tmp_path / "run", "other")
    summary = tmp_path / "run" / "summary.json"
    whole = summary.read_text()
    summary.write_text(whole.replace("completed", "failed"))
    assert not finished(tmp_path / "run", "one")
    summary.write_text(whole)
    assert finished(tmp_path / "run", "one")
    record.write_text(record.read_text()[:20])
    assert not finished(tmp_path / "run", "one")


@pytest.mark.parametrize("what", ["code", "data"])
def test_code_or_data_that_changed_meanwhile_are_refused(
    tmp_path: Path, order, what: str
):
    with pytest.raises(RuntimeError, match=f"the {what} ha"):
        child.do(order(**{what: "other"}))
    assert not finished(tmp_path / "run", "one")


def endless(folder: Path) -> Run:
    """Return a run that takes hours."""
    found = table(folder, cell("a", set={"rounds.count": 10**6}), seeds=[1])
    (run,) = plan(found, data=None, out=folder, cache=cache_folder())
    return run


def wait_for_rounds(run: Run) -> None:
    deadline = time.monotonic() + 60
    while not read_json(run.folder / "progress.json").get("round"):
        assert time.monotonic() < deadline, run.log.read_text()
        time.sleep(0.05)


def test_a_run_ends_when_its_runner_is_killed(tmp_path: Path):
    """Then the pipe between them closes, as it does here."""
    run = endless(tmp_path)
    process = work._start(run, commit="")
    try:
        wait_for_rounds(run)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == child.ORPHANED
    finally:
        process.kill()
    assert result_of(run).status == "missing"


def test_ctrl_c_ends_the_runs_under_way(tmp_path: Path):
    run = endless(tmp_path)

    def interrupt(under_way: Any) -> None:
        assert under_way == [run]
        if read_json(run.folder / "progress.json").get("round"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work.work([run], jobs=1, commit="", on_end=pytest.fail, on_tick=interrupt)
    assert read_json(run.folder / "summary.json")["status"] == "interrupted"
    assert result_of(run).status == "missing"
    assert processes_of_runs() == []


def processes_of_runs() -> list[int]:
    """Return the ids of the processes of runs that this process started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            command = (folder / "cmdline").read_bytes()
        except OSError:  # gone meanwhile
            continue
        if int(parent) == os.getpid() and b"experiments.child" in command:
            found.append(int(folder.name))
    return found


def test_a_process_that_is_killed_is_a_failed_run(tmp_path: Path):
    run = endless(tmp_path)
    cause = work._cause(run, -signal.SIGKILL)
    assert cause == "its process was ended by SIGKILL (out of memory?)"
    assert result_of(run, cause).status == "failed"


def test_a_process_that_fails_says_why_in_its_log(tmp_path: Path):
    run = endless(tmp_path)
    run.log.parent.mkdir()
    run.log.write_text("Traceback\n  File\nImportError: no such thing\n\n")
    assert work._cause(run, 1) == "ImportError: no such thing"
