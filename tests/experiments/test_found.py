from pathlib import Path

from experiments.found import found_in, last_ari


def test_accuracies_of_unseen_clients_are_told_apart_by_model(tmp_path: Path):
    few = {"mean": 0.5, "worst": 0.25}
    unseen = {"mean": 0.75, "worst": 0.625, "models": {"shared": few}}
    summary = {"accuracy": {"mean": 0.875}, "unseen": unseen}
    assert found_in(tmp_path, summary) == {
        "mean": 0.875,
        "unseen": 0.75,
        "unseen_worst": 0.625,
        "unseen_shared": 0.5,
        "unseen_shared_worst": 0.25,
    }
    assert found_in(tmp_path, {**summary, "unseen": None}) == {"mean": 0.875}


def test_the_index_is_that_of_the_last_refresh(tmp_path: Path):
    assert last_ari(tmp_path) == {}
    table = tmp_path / "hdc-fl" / "refreshes.csv"
    table.parent.mkdir()
    table.write_text("round,ari_latent,groups\n5,0.25,2\n9,0.75,2\n")
    assert last_ari(tmp_path) == {"ari_latent": 0.75}
    table.write_text("round,ari_latent,groups\n5,,2\n")
    assert last_ari(tmp_path) == {}
