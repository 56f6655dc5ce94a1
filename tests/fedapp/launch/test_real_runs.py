"""Real runs: they end in order, and leave nothing behind."""

import os
import signal
import time

import pytest
from real_run import Run, wait_until


@pytest.mark.slow
def test_a_run_completes(tmp_path):
    run = Run(tmp_path, "rounds.count=2")
    run.await_round(1)

    code, output = run.end()

    assert code == 0, output
    assert "round 1/2: mean" in output
    assert "\x1b" not in output
    assert str(run.run_dir) in output
    assert run.status() == "completed"
    assert "[round 2 of 2]" in (run.run_dir / "log.txt").read_text()
    assert run.leaves_nothing()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(tmp_path, number):
    run = Run(tmp_path, "rounds.count=1000")
    run.await_round(2)
    asked = time.monotonic()

    run.process.send_signal(number)
    code, output = run.end()

    assert code == 130, output
    assert time.monotonic() - asked < 20
    assert run.status() == "interrupted"
    assert (run.run_dir / "log.txt").exists()
    assert run.leaves_nothing()


@pytest.mark.slow
def test_an_early_interrupt_leaves_nothing(tmp_path):
    run = Run(tmp_path, "rounds.count=1000")

    run.process.send_signal(signal.SIGINT)
    code, output = run.end()

    assert code == 130, output
    assert run.leaves_nothing()


@pytest.mark.slow
def test_a_failing_run_says_why(tmp_path):
    # A folder that is there, so that only the server app sees what is wrong with it.
    (tmp_path / "bare").mkdir()
    run = Run(tmp_path, "data.name=custom", f"data.path={tmp_path / 'bare'}")

    code, output = run.end()

    assert code == 1, output
    assert "bare' holds no data" in output
    assert run.status() == "failed"
    assert run.leaves_nothing()


@pytest.mark.slow
def test_a_simulation_that_is_killed_fails_the_run(tmp_path):
    run = Run(tmp_path, "rounds.count=1000")
    run.await_round(2)

    os.kill(run.processes.named("flwr-simulation"), signal.SIGKILL)
    code, output = run.end()

    assert code == 1, output
    assert "the simulation process died" in output
    assert run.status() == "failed"
    assert run.leaves_nothing()


@pytest.mark.slow
def test_a_superlink_that_was_told_to_end_fails_the_run(tmp_path):
    run = Run(tmp_path, "rounds.count=1000")
    assert wait_until(lambda: run.processes.named("flwr-simulation"), seconds=60)

    # The simulation then waits for ever for the SuperLink, unless it has begun.
    os.kill(run.processes.named("flower-superlink"), signal.SIGTERM)
    os.kill(run.processes.named("flwr-simulation"), signal.SIGSTOP)
    code, output = run.end()

    assert code == 1, output
    assert "SuperLink was told to end" in output
    assert run.leaves_nothing()


@pytest.mark.slow
def test_a_killed_run_leaves_nothing(tmp_path):
    run = Run(tmp_path, "rounds.count=1000")
    run.await_round(2)

    run.process.kill()
    run.end()

    assert wait_until(run.leaves_nothing, seconds=10)
    assert run.status() == "interrupted"
    assert (run.run_dir / "final" / "params.safetensors").exists()
    assert (run.run_dir / "log.txt").exists()
    assert not (run.run_dir / "stop").exists()


@pytest.mark.slow
def test_an_early_kill_leaves_nothing(tmp_path):
    run = Run(tmp_path, "rounds.count=1000")

    run.process.kill()
    run.end()

    assert wait_until(run.leaves_nothing, seconds=10)


@pytest.mark.slow
def test_a_run_that_is_killed_with_its_guard_ends(tmp_path):
    run = Run(tmp_path, "rounds.count=1000")
    run.await_round(2)
    guard = run.guard()

    os.kill(guard, signal.SIGKILL)
    run.process.kill()
    run.end()

    assert wait_until(run.leaves_nothing, seconds=30)
    assert run.status() == "interrupted"


@pytest.mark.slow
def test_workers_end_with_the_simulation(tmp_path):
    run = Run(tmp_path, "rounds.count=1000")
    run.await_round(2)
    guard, simulation = run.guard(), run.processes.named("flwr-simulation")
    assert run.workers()
    for pid in (run.process.pid, guard):  # they would clean up
        os.kill(pid, signal.SIGSTOP)

    os.kill(simulation, signal.SIGKILL)

    assert wait_until(lambda: run.workers() == [], seconds=10)
    for pid in (run.process.pid, guard):
        os.kill(pid, signal.SIGCONT)
    run.end()
    assert run.leaves_nothing()
