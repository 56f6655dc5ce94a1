import pytest
import torch

from fedapp.versions import Versions, owner_name


@pytest.fixture
def versions(tmp_path):
    return Versions(tmp_path / "bank")


def write(versions, *which, owner="a"):
    for round_, step in which:
        value = torch.tensor(100 * round_ + step)
        versions.write(owner, (round_, step), {"x": {"v": value}})


def read(versions, owner="a", **limits):
    file = versions.latest(owner, **limits)
    return None if file is None else divmod(int(file.part("x")["v"]), 100)


def kept(versions, owner="a"):
    return [
        before
        for before in [(r, s) for r in range(12) for s in range(4)]
        if (
            versions.folder / owner / "r{:06}-{:02}.safetensors".format(*before)
        ).exists()
    ]


def test_there_is_nothing_before_the_first_version(versions):
    assert read(versions) is None
    write(versions, (2, 0))
    assert read(versions, before=(2, 0)) is None
    assert read(versions, owner="b") is None


def test_the_latest_is_of_the_last_round_and_there_of_the_last_step(versions):
    write(versions, (9, 0), (9, 2), (9, 1))
    assert read(versions) == (9, 2)
    write(versions, (10, 0))
    assert read(versions) == (10, 0)


@pytest.mark.parametrize(
    ("before", "found"),
    [((11, 0), (10, 1)), ((10, 1), (10, 0)), ((10, 0), (9, 3)), ((9, 3), None)],
)
def test_before_leaves_out_the_version_itself_and_later_ones(versions, before, found):
    write(versions, (9, 3), (10, 0), (10, 1))
    assert read(versions, before=before) == found


def test_a_round_keeps_its_own_versions_and_the_newest_before_it(versions):
    write(versions, (1, 0), (2, 0), (3, 0), (3, 1))
    versions.prune("a", commits=(), running=3)
    assert kept(versions) == [(2, 0), (3, 0), (3, 1)]
    write(versions, (7, 0))
    versions.prune("a", commits=(), running=7)
    assert kept(versions) == [(3, 1), (7, 0)]


def test_a_commit_keeps_the_newest_version_up_to_its_round(versions):
    write(versions, (1, 0), (2, 0), (2, 1), (4, 0), (5, 0), (9, 0))
    versions.prune("a", commits=(3, 6), running=9)
    assert kept(versions) == [(2, 1), (5, 0), (9, 0)]


def test_a_round_done_again_replaces_its_version(versions):
    write(versions, (1, 0), (2, 0))
    versions.write("a", (2, 0), {"x": {"v": torch.tensor(-1)}})
    assert int(versions.latest("a").part("x")["v"]) == -1
    assert read(versions, before=(2, 0)) == (1, 0)


def test_writing_one_owner_leaves_the_others(versions):
    write(versions, (1, 0), owner="a")
    write(versions, (2, 0), (3, 0), owner="b")
    assert read(versions, owner="a") == (1, 0)


def test_forgetting_goes_by_round_and_for_all_owners(versions):
    write(versions, (3, 0), (4, 0), (4, 1), owner="a")
    write(versions, (4, 2), owner="b")
    versions.forget(after=4)
    assert kept(versions) == [(3, 0), (4, 0), (4, 1)]
    versions.forget(after=3)
    assert kept(versions) == [(3, 0)]
    assert read(versions, owner="b") is None


def test_notes_are_kept_with_a_version(versions):
    versions.write("a", (1, 0), {}, num_examples="7")
    assert versions.latest("a").notes["num_examples"] == "7"


def test_files_that_are_no_version_do_not_count(versions):
    write(versions, (1, 0))
    # What a process killed while writing leaves behind.
    (versions.folder / "a" / ".r000009-00.safetensors.x1y2").write_text("half")
    assert read(versions) == (1, 0)


def test_owners_are_sorted_as_their_numbers(versions):
    assert versions.owners() == []
    for client in (10, 9, 100):
        write(versions, (1, 0), owner=owner_name(client))
    assert versions.owners() == [owner_name(client) for client in (9, 10, 100)]


def test_versions_after_the_one_held_are_in_no_commit_and_are_left(versions):
    # Client a answered in round 5; its reply of round 6 was dropped.
    write(versions, (3, 0), (5, 0), (6, 0))
    left = versions.prune("a", commits=(6, 7), running=8, held=(5, 0))
    assert kept(versions) == [(5, 0), (6, 0)]
    assert left == 2


def test_pruning_says_how_many_are_left(versions):
    write(versions, (1, 0), (2, 0), (3, 0))
    assert versions.prune("a", commits=(1,), running=4) == 2
    assert versions.prune("a", commits=(), running=4) == 1
    assert versions.prune("b", commits=(), running=4) == 0
