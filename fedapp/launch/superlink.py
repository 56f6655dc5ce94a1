"""Flower's SuperLink: starting it, and asking whether it is there."""

import http.client
import socket
import subprocess
import time
from pathlib import Path

from fedapp.launch.environment import program
from fedapp.launch.error import LaunchError
from fedapp.launch.logs import tail
from fedapp.launch.run_files import OnPoll

START_SECONDS = 90.0


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def superlink_command(port: int) -> list[str]:
    """Return the command of a SuperLink that simulates."""
    command = [program("flower-superlink"), "--insecure", "--simulation"]
    command += ["--isolation", "subprocess"]
    return [*command, "--host", "127.0.0.1", "--port", str(port)]


def await_superlink(
    superlink: subprocess.Popen[bytes], scratch: Path, *, port: int, on_poll: OnPoll
) -> None:
    """Wait until the SuperLink answers.

    Raises
    ------
    LaunchError
        If it died, or does not answer in time.
    """
    deadline = time.monotonic() + START_SECONDS
    while not _healthy(port):
        on_poll({"status": "starting", "stage": "starting Flower"})
        log = scratch / "superlink.log"
        if superlink.poll() is not None:
            raise LaunchError(
                f"Flower's SuperLink did not start: it ended with exit code "
                f"{superlink.returncode}\n{tail(log)}"
            )
        if time.monotonic() > deadline:
            raise LaunchError(
                f"Flower's SuperLink did not answer on 127.0.0.1:{port} within "
                f"{START_SECONDS:.0f} s; is this machine overloaded?\n{tail(log)}"
            )
        time.sleep(0.1)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def listens(port: int) -> bool:
    """Return whether somebody listens on a port of 127.0.0.1."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except ConnectionRefusedError:
        return False
    except OSError:  # busy, perhaps
        return True
    return True
