"""The commit that results are marked with."""

import subprocess
from pathlib import Path

from fedapp.cli.commit import commit_of


def git(folder: Path, *words: str) -> str:
    user = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    command = ["git", "-C", str(folder), *user, *words]
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_commit_tells_whether_what_ships_was_changed(tmp_path):
    git(tmp_path, "init")
    (tmp_path / "pyproject.toml").write_text("a = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    commit = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "notes.txt").write_text("not shipped")
    assert commit_of(tmp_path) == commit

    (tmp_path / "pyproject.toml").write_text("a = 2\n")
    assert commit_of(tmp_path) == f"{commit}-dirty"


def test_an_app_inside_another_repository_has_no_commit(tmp_path):
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "one")
    (tmp_path / "site-packages").mkdir()

    assert commit_of(tmp_path / "site-packages") == ""
