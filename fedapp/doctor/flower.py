"""Is something of Flower's or Ray's in the way?"""

from collections.abc import Mapping
from dataclasses import dataclass

from fedapp.doctor.finding import Finding

LOCAL_PORT = 39091
"""Where the SuperLink listens that a plain ``flwr run`` starts and leaves running."""


@dataclass(frozen=True)
class Owner:
    """The process that listens on a port; what is not known is empty."""

    pid: int
    folder: str
    home: str


def check_superlink(*, listens: bool, owner: Owner | None) -> Finding:
    """Warn of a SuperLink that an earlier ``flwr run`` left running."""
    if not listens:
        return Finding("ok", "SuperLink", f"none is left on port {LOCAL_PORT}")
    fact = f"port {LOCAL_PORT} answers"
    end = "end it"
    if owner is not None:
        home = owner.home or "not set"
        fact += f": process {owner.pid}, started in {owner.folder}, FLWR_HOME {home}"
        end = f"end it with: kill {owner.pid}"
    return Finding(
        "warning",
        "SuperLink",
        fact,
        "fedapp run is not concerned; a plain flwr run would use the environment and "
        f"folder of this one: {end}",
    )


def check_port(port: int | None) -> Finding:
    """Report whether the system gives a free port of 127.0.0.1."""
    if port is not None:
        return Finding("ok", "port", "127.0.0.1 has free ports")
    return Finding(
        "problem",
        "port",
        "the system gives no free port of 127.0.0.1",
        "end processes that hold many connections, or allow sockets in this sandbox",
    )


def check_variables(environment: Mapping[str, str]) -> list[Finding]:
    """Warn of variables that steer Flower and Ray behind one's back."""
    found = []
    if address := environment.get("RAY_ADDRESS"):
        found.append(
            Finding(
                "warning",
                "RAY_ADDRESS",
                f"is {address}",
                "fedapp run leaves it out; a plain flwr run would join that cluster: "
                "unset RAY_ADDRESS",
            )
        )
    names = sorted(name for name in environment if name.startswith("FLWR_"))
    if names:
        found.append(
            Finding(
                "warning",
                "FLWR_*",
                ", ".join(f"{name}={environment[name]}" for name in names),
                "fedapp run has a FLWR_HOME of its own, others reach Flower: unset "
                "what you do not mean",
            )
        )
    return found or [Finding("ok", "variables", "no RAY_ADDRESS, no FLWR_*")]
