"""Processes by number."""

import os
import subprocess

from fedapp.proc import identity, runs, stat_of


def test_this_process_runs():
    assert runs(identity(os.getpid()))


def test_a_number_given_to_another_process_is_not_the_same_process():
    assert not runs(f"{os.getpid()}:1")


def test_without_a_start_the_number_must_do():
    assert runs(f"{os.getpid()}:")


def test_a_dead_process_that_nobody_waited_for_does_not_run():
    child = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    who = identity(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    dead = stat_of(child.pid)
    child.communicate()

    assert dead is None
    assert not runs(who)
    assert not runs(f"{child.pid}:")


def test_a_process_in_a_session_of_its_own():
    with subprocess.Popen(["sleep", "9"], start_new_session=True) as child:
        found = stat_of(child.pid)
        child.kill()

    assert found is not None
    assert found.session == child.pid
