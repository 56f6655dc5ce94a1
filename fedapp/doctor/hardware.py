"""What there is to compute with, and what Ray would see of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedapp.doctor.finding import Finding


def check_cpus(*, present: int, usable: float, workers: int) -> Finding:
    """Compare workers with CPUs; a container may be allowed fewer than there are."""
    fact = f"{present}, {workers} workers"
    if usable < present:
        fact = f"{present}, of which this process may use {usable:g}; {workers} workers"
    if workers > usable:
        fewer = max(1, int(usable))
        return Finding(
            "warning",
            "CPUs",
            fact,
            f"more workers than CPUs only wait for each other: --workers {fewer}",
        )
    return Finding("ok", "CPUs", fact)


@dataclass(frozen=True)
class Gpus:
    """GPUs as others see them: torch by name; Ray by number, None if not known.

    ``driver`` tells whether there is an NVIDIA driver, ``built`` for which CUDA torch
    was built ("" for none).
    """

    names: Sequence[str]
    driver: bool
    built: str
    ray: float | None


def check_gpus(gpus: Gpus, *, device: str) -> list[Finding]:
    """Say what can be trained on, given ``local.device``."""
    if not gpus.names:
        return [_no_gpu(gpus, device)]
    fact = f"{len(gpus.names)} ({', '.join(sorted(set(gpus.names)))})"
    found = []
    if gpus.ray is not None and gpus.ray < len(gpus.names):
        found.append(
            Finding(
                "warning",
                "GPU",
                f"{fact}, but Ray sees {gpus.ray:g}",
                "Ray goes by CUDA_VISIBLE_DEVICES: unset it, or name the GPUs",
            )
        )
    elif device == "cpu":
        found.append(Finding("ok", "GPU", f"{fact}, not used (local.device = 'cpu')"))
    else:
        share = "give each client a share: --gpus-per-client 0.25 puts 4 on one GPU"
        found.append(Finding("ok", "GPU", f"{fact}, which Ray sees", share))
    return found


def _no_gpu(gpus: Gpus, device: str) -> Finding:
    if gpus.driver and not gpus.built:
        advice = "install the CUDA build of torch (pytorch.org says how)"
        level_fact = "there is an NVIDIA driver, but this torch is built for CPUs"
    elif gpus.driver:
        advice = "compare nvidia-smi with torch.version.cuda; is the driver too old?"
        level_fact = f"torch, built for CUDA {gpus.built}, sees none of the driver's"
    else:
        advice, level_fact = "", "none"
    if device == "cuda":
        return Finding(
            "problem",
            "GPU",
            f"{level_fact}, and local.device = 'cuda'",
            advice or "use local.device=auto",
        )
    return Finding("warning" if advice else "ok", "GPU", level_fact, advice)


def check_cluster(*, gpus: float, cpus: float) -> Finding:
    """Report what a Ray that was really started has."""
    return Finding("ok", "Ray", f"starts; it sees {cpus:g} CPUs and {gpus:g} GPUs")
