"""Runs to study: made once, then only read, or copied to be damaged."""

import shutil
from collections.abc import Callable

import pytest
from conftest import Finished

from fedapp.study.bench import Bench
from study.runs import FULL, PARTIAL, STABLE, bench_of, make


@pytest.fixture(scope="session")
def full(tmp_path_factory) -> Finished:
    """Return a run in which everybody trains; do not write into it."""
    return make(tmp_path_factory.mktemp("full"), **FULL)


@pytest.fixture(scope="session")
def partial(tmp_path_factory) -> Finished:
    return make(tmp_path_factory.mktemp("partial"), **PARTIAL)


@pytest.fixture(scope="session")
def stable(tmp_path_factory) -> Finished:
    return make(tmp_path_factory.mktemp("stable"), **STABLE)


@pytest.fixture(scope="session")
def bench(full) -> Bench:
    return bench_of(full)


@pytest.fixture
def copied(full, tmp_path) -> Callable[..., Finished]:
    """Copy the run; keywords replace text in its files."""

    def copy(file: str = "", old: str = "", new: str = "") -> Finished:
        target = tmp_path / "copy"
        shutil.copytree(full.path, target)
        if file:
            text = (target / file).read_text()
            assert old in text
            (target / file).write_text(text.replace(old, new))
        return Finished(target)

    return copy
