"""What cannot be studied, and what is said then."""

import json

import pytest
from filelock import FileLock

from fedapp.hdc import finding, many
from fedapp.run_folder import RunFolder
from fedapp.storage import Storage
from fedapp.study.opening import held_bench, open_bench
from fedapp.study.place import Place, StudyError, find
from fedapp.study.variant import Variant
from fedapp.study.variant_results import write
from fedapp.study.variants import evaluate
from fedapp.workplace import cache_folder
from study.runs import bench_of, make


def refusal(path, **changes) -> str:
    with pytest.raises(StudyError) as error:
        find(path, **{"round": None, "data_path": ""} | changes)
    return str(error.value)


def test_no_run_folder(tmp_path):
    assert "is not a run folder: it has no config.toml" in refusal(tmp_path)


def test_a_run_of_another_method(copied):
    run = copied("config.toml", 'method = "hdc-fl"', 'method = "fedper"')
    assert "is a run of fedper; this looks at the cache" in refusal(run.path)


def test_a_run_on_devices(copied):
    run = copied()
    (run.path / "manifest.json").rename(run.path / "devices.json")
    assert "on devices, whose test samples are not here" in refusal(run.path)
    (run.path / "devices.json").unlink()
    assert "did not get as far as dividing its data" in refusal(run.path)


def test_memory_that_ended_with_the_run(copied):
    run = copied("config.toml", 'store = "auto"', 'store = "context"')
    assert "the clients' heads ended with the run" in refusal(run.path)


def test_no_commit(copied):
    run = copied()
    for file in (run.path / "checkpoint").iterdir():
        file.unlink()
    assert "no round of the run" in refusal(run.path)


def test_a_round_that_is_not_there_any_more(full):
    found = refusal(full.path, round=1)
    assert "round 1 is not there" in found
    assert "rounds 3, 4 (the last two are kept)" in found
    assert find(full.path, round=3, data_path="").round == 3
    assert find(full.path, round=None, data_path="").round == 4


def test_data_that_are_gone(copied):
    run = copied("config.toml", 'path = ""', 'path = "/no/such/folder"')
    found = refusal(run.path)
    assert "the data of the run are gone" in found
    assert "--data-path" in found


def test_data_that_have_changed(copied):
    run = copied()
    manifest = json.loads((run.path / "manifest.json").read_text())
    key = manifest["key"]
    manifest["key"] = "digits-other"
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    found = refusal(run.path)
    assert f"they were digits-other and are {key}" in found


def test_broken_files_are_named(copied):
    run = copied("manifest.json", '"key"', '"kez"')
    assert "manifest.json cannot be read" in refusal(run.path)
    (run.path / "config.toml").write_text("method = ")
    assert "config.toml cannot be read" in refusal(run.path)
    (run.path / "config.toml").write_text('method = "hdc-fl"\nsede = 1\n')
    assert "sede: there is no such setting" in refusal(run.path)


@pytest.mark.parametrize(
    "damage",
    ["checkpoint/r000004-state.safetensors", "bank/000002", "checkpoint/r000004.json"],
)
def test_a_commit_that_is_not_whole(copied, damage):
    run = copied()
    place = find(run.path, round=None, data_path="")
    target = run.path / damage
    for file in target.iterdir() if target.is_dir() else [target]:
        file.write_bytes(file.read_bytes()[:10])
    with pytest.raises(StudyError, match=r"round 4 in .* is not whole"):
        open_bench(place)


def test_a_bank_row_that_is_gone(copied):
    run = copied()
    for file in (run.path / "bank/000002").iterdir():
        file.unlink()
    with pytest.raises(StudyError, match="a row of its bank is gone"):
        bench_of(run)


def test_no_refresh_yet(tmp_path):
    run = make(tmp_path, **{"data.clients": 3, "rounds.count": 1})
    with pytest.raises(StudyError, match="no groups as of round 1"):
        bench_of(run)


def test_groups_of_a_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(many, "EXACT", 5)
    monkeypatch.setattr(finding, "EXACT", 5)
    run = make(tmp_path, **{"data.clients": 6, "rounds.count": 1})
    with pytest.raises(StudyError, match="has 6 grouped clients, of which 5 were comp"):
        bench_of(run)


def test_a_run_that_is_going_on(full):
    lock = FileLock(full.path / "lock")
    with (
        lock,
        pytest.raises(StudyError, match="another process is working in"),
        held_bench(full.path),
    ):
        pass


def test_nobody_goes_on_with_a_run_that_is_studied(full):
    other = FileLock(full.path / "lock")
    with held_bench(full.path) as bench:
        assert bench.place == Place(full.path, 4, cache_folder())
        with pytest.raises(TimeoutError):
            other.acquire(timeout=0)
    other.acquire(timeout=0)
    other.release()


def test_an_interrupted_run_can_be_studied_and_resumed(copied):
    """Then its tables are deleted: they are of rounds that are done again."""
    run = copied("summary.json", '"completed"', '"interrupted"')
    with held_bench(run.path, round=3) as bench:
        write(bench, evaluate(bench, [Variant("soft")], processes=1))
    assert (run.path / "hdc-fl/variants.csv").is_file()
    folder = RunFolder(run.path, resume=True)
    commit = Storage(folder).take_up()
    folder.close()
    assert commit is not None
    assert commit.round == 4
    assert not (run.path / "hdc-fl/variants.csv").exists()
    assert (run.path / "hdc-fl/refreshes.csv").is_file()


def test_a_folder_that_is_none_is_left_as_it_was(tmp_path):
    with pytest.raises(StudyError), held_bench(tmp_path):
        pass
    assert not list(tmp_path.iterdir())
