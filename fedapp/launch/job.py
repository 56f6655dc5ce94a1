"""What is to be simulated."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedapp.config import Scalar


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run to be simulated.

    ``overrides`` are settings by dotted name, paths absolute; ``run_dir`` is the
    folder that the server app will make of ``output.dir`` and ``output.name``.
    """

    overrides: Mapping[str, Scalar]
    clients: int
    workers: int | None
    gpus_per_client: float
    run_dir: Path
    install_dependencies: bool
