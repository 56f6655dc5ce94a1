"""What is submitted."""

from fedapp.launch import submit


def test_a_wheel_is_bundled_from_a_copy(tmp_path, monkeypatch):
    installed = tmp_path / "site-packages"
    for name in ("fedapp", "strategies", "client_apps", "torch"):
        (installed / name).mkdir(parents=True)
    project = installed / "fedapp" / "pyproject.toml"
    project.write_text("")
    monkeypatch.setattr(
        submit, "__file__", str(project.parent / "launch" / "submit.py")
    )
    monkeypatch.setattr(submit, "project_file", lambda: project)

    staged = submit.app_folder(tmp_path)

    found = sorted(entry.name for entry in staged.iterdir())
    assert found == ["client_apps", "fedapp", "pyproject.toml", "strategies"]
