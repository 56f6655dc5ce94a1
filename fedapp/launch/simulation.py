"""One run under Flower's simulation engine, from its start to its clean end."""

from fedapp.launch.cleaning import clean_up
from fedapp.launch.environment import environment_of, scratch_folder
from fedapp.launch.error import LaunchError
from fedapp.launch.follow import Engine, follow
from fedapp.launch.guard import guarded
from fedapp.launch.job import Job
from fedapp.launch.processes import Processes
from fedapp.launch.run_files import OnPoll, ask_to_stop
from fedapp.launch.signals import undisturbed
from fedapp.launch.submit import run_command
from fedapp.launch.superlink import await_superlink, free_port, superlink_command


def simulate(job: Job, on_poll: OnPoll) -> None:
    """Run ``job`` to its end; what came of it stands in its run folder.

    ``on_poll`` gets the latest progress, five times a second. However this ends, no
    process of the run is left, its log is in the run folder, and the run folder, if
    there is one, has a final status.

    Raises
    ------
    LaunchError
        Flower did not start, refused the run or died.
    KeyboardInterrupt
        On Ctrl-C, once the run has ended.
    """
    processes = Processes(scratch_folder())
    with guarded(processes.scratch, job.run_dir):
        _simulate(job, processes, on_poll)


def _simulate(job: Job, processes: Processes, on_poll: OnPoll) -> None:
    status, error = "failed", "the run ended without a result"
    try:
        _run(job, processes, on_poll)
    except LaunchError as problem:
        error = str(problem).partition("\n")[0]
        raise
    except KeyboardInterrupt:
        status, error = "interrupted", "interrupted"
        ask_to_stop(job.run_dir)
        raise
    finally:
        with undisturbed():
            clean_up(processes, job.run_dir, status=status, error=error)


def _run(job: Job, processes: Processes, on_poll: OnPoll) -> None:
    port = free_port()
    environment = environment_of(processes.scratch, install=job.install_dependencies)
    superlink = processes.start(
        superlink_command(port), log="superlink.log", environment=environment
    )
    await_superlink(superlink, processes.scratch, port=port, on_poll=on_poll)
    client = processes.start(
        run_command(job, processes.scratch, port=port),
        log="run.log",
        environment=environment,
    )
    follow(Engine(processes, port, superlink, client), job.run_dir, on_poll)
