"""A final status, whatever happened."""

from fedapp import launch


def test_settle_keeps_a_final_status_and_what_else_is_known(tmp_path):
    (tmp_path / "stop").touch()
    (tmp_path / "summary.json").write_text('{"status": "completed"}')
    (tmp_path / "progress.json").write_text('{"status": "running", "round": 3}')

    launch.settle(tmp_path, status="failed", error="died")

    assert launch.read_json(tmp_path / "summary.json") == {"status": "completed"}
    expected = {"status": "failed", "round": 3, "error": "died"}
    assert launch.read_json(tmp_path / "progress.json") == expected
    assert not (tmp_path / "stop").exists()


def test_a_run_that_has_no_folder_is_not_settled(tmp_path):
    launch.settle(tmp_path / "none", status="failed", error="died")

    assert not (tmp_path / "none").exists()
