"""Noticing that the launching process is gone."""

import os
import subprocess
import sys
import time

import pytest

from fedapp import watchdog
from fedapp.proc import identity

WATCHING = """
import time
from fedapp import watchdog
watchdog.EVERY_SECONDS = watchdog.GRACE_SECONDS = 0.1
watchdog.watch(watchdog.end_worker)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def parent():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_launching_process_that_is_there_or_was_never_there(monkeypatch, parent):
    monkeypatch.delenv(watchdog.PARENT, raising=False)
    assert not watchdog.orphaned()

    monkeypatch.setenv(watchdog.PARENT, identity(parent.pid))
    assert not watchdog.orphaned()

    parent.kill()
    parent.wait()
    assert watchdog.orphaned()


def test_a_watching_process_ends_after_the_launching_one(parent):
    env = {**os.environ, watchdog.PARENT: identity(parent.pid)}
    command = [sys.executable, "-c", WATCHING]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ready\n"
        time.sleep(0.5)
        assert child.poll() is None

        parent.kill()
        parent.wait()
        assert child.wait(5) == 1


def test_an_orphaned_run_is_interrupted(monkeypatch, parent, run, tmp_path):
    monkeypatch.setenv(watchdog.PARENT, identity(parent.pid))
    monkeypatch.setattr(watchdog, "watch", lambda then: None)
    parent.kill()
    parent.wait()

    with pytest.raises(RuntimeError, match="the process that started the run is gone"):
        run("fedavg", name="one")

    assert '"status": "interrupted"' in (tmp_path / "one" / "summary.json").read_text()
