"""Is the right software installed?"""

from collections.abc import Mapping

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from fedapp.doctor.finding import Finding

SHOWN = ("flwr", "ray", "torch", "torchvision", "numpy")


def check_python(version: str, wanted: str) -> Finding:
    """Compare Python's version with what the project asks for, as ``>=3.11``."""
    if SpecifierSet(wanted).contains(version, prereleases=True):
        return Finding("ok", "Python", version)
    return Finding(
        "problem",
        "Python",
        f"{version}, but this release needs {wanted}",
        "make a virtual environment with such a Python",
    )


def check_versions(
    wanted: Mapping[str, Requirement], installed: Mapping[str, str]
) -> list[Finding]:
    """Compare packages with what the project asks for; one line if all is well."""
    wrong = [
        _mismatch(name, requirement, installed.get(name))
        for name, requirement in wanted.items()
        if not _fits(requirement, installed.get(name))
    ]
    if wrong:
        return wrong
    shown = ", ".join(f"{name} {installed[name]}" for name in SHOWN)
    return [Finding("ok", "packages", f"{shown}: as this release needs them")]


def _fits(requirement: Requirement, version: str | None) -> bool:
    if version is None:
        return False
    return requirement.specifier.contains(version, prereleases=True)


def _mismatch(name: str, requirement: Requirement, version: str | None) -> Finding:
    have = "is not installed" if version is None else f"{version} is installed"
    return Finding(
        "problem",
        name,
        f"{have}, but this release needs {requirement.specifier}",
        f"pip install '{requirement}'",
    )
