"""What a run was computed on."""

import os
import platform
from pathlib import Path


def hardware() -> str:
    """Return CPU, number of cores, and GPU if there is one, in words."""
    import torch

    gpu = ", no GPU"
    if torch.cuda.is_available():
        gpu = f", {torch.cuda.get_device_name()}"
    return f"{_cpu()}, {os.cpu_count()} cores{gpu}"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:  # not Linux
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.processor() or platform.machine()
