"""The inline engine under the command line."""

from command_line import fedapp


def test_inline_engine_runs_here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDAPP_COMMIT", "")
    words = ["fedavg", "data.clients=3", "rounds.count=1", "output.name=one"]

    result = fedapp("run", *words, "--engine", "inline")

    assert result.exit_code == 0, result.output
    assert "round 1/1: mean" in result.output
    assert "round 1 of 1" in (tmp_path / "runs" / "one" / "log.txt").read_text()


def test_an_inline_run_that_fails_says_why(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDAPP_COMMIT", "")
    (tmp_path / "bare").mkdir()
    words = ["data.name=custom", "data.path=bare", "output.name=one"]

    result = fedapp("run", *words, "--engine", "inline")

    assert result.exit_code == 1
    assert "bare" in result.stderr
    log = (tmp_path / "runs" / "one" / "log.txt").read_text()
    assert "Traceback" in log
