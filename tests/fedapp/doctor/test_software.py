"""Versions against what the project asks for."""

from packaging.requirements import Requirement

from fedapp.doctor.gather import wanted
from fedapp.doctor.software import SHOWN, check_python, check_versions

WANTED = {name: Requirement(f"{name}>=2,<3") for name in SHOWN}
WANTED["torch"] = Requirement("torch==2.14.1")
RIGHT = {name: "2.1" for name in SHOWN} | {"torch": "2.14.1+cu128"}


def test_a_build_for_a_gpu_is_the_same_release():
    (finding,) = check_versions(WANTED, RIGHT)

    assert finding.level == "ok"
    assert "torch 2.14.1+cu128" in finding.fact


def test_each_wrong_package_is_named_with_what_to_install():
    missing, other = check_versions(
        WANTED,
        {name: v for name, v in RIGHT.items() if name != "flwr"} | {"torch": "2.9.0"},
    )

    assert (missing.level, missing.topic) == ("problem", "flwr")
    assert missing.fact == "is not installed, but this release needs <3,>=2"
    assert other.fact == "2.9.0 is installed, but this release needs ==2.14.1"
    assert other.advice == "pip install 'torch==2.14.1'"


def test_python():
    assert check_python("3.11.7", ">=3.11,<3.13").level == "ok"
    assert check_python("3.13.0", ">=3.11,<3.13").level == "problem"


def test_what_is_shown_is_what_the_project_asks_for():
    python, packages = wanted()

    assert python.startswith(">=3.")
    assert set(SHOWN) <= packages.keys()
