"""CPUs and GPUs against settings."""

import pytest

from fedapp.doctor.hardware import Gpus, check_cpus, check_gpus

NONE = Gpus([], driver=False, built="", ray=0)
TWO = Gpus(["H200", "H200"], driver=True, built="12.8", ray=2)


def test_more_workers_than_a_container_allows():
    assert check_cpus(present=8, usable=8, workers=8).level == "ok"

    finding = check_cpus(present=8, usable=2.5, workers=8)

    assert finding.level == "warning"
    assert "may use 2.5" in finding.fact
    assert "--workers 2" in finding.advice


@pytest.mark.parametrize(
    ("gpus", "device", "level", "words"),
    [
        (NONE, "auto", "ok", "none"),
        (NONE, "cuda", "problem", "local.device=auto"),
        (TWO, "auto", "ok", "2 (H200), which Ray sees"),
        (TWO, "cpu", "ok", "not used"),
        (Gpus(["H200", "H200"], True, "12.8", ray=1), "auto", "warning", "Ray sees 1"),
        (Gpus([], True, "", 0), "auto", "warning", "CUDA build of torch"),
        (Gpus([], True, "12.8", 1), "cuda", "problem", "nvidia-smi"),
    ],
)
def test_gpus(gpus, device, level, words):
    (finding,) = check_gpus(gpus, device=device)

    assert finding.level == level
    assert words in f"{finding.fact}; {finding.advice}"
