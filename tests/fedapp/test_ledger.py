import csv
import time

import pytest
import torch

from fedapp.algorithm import Update
from fedapp.bank import Bank
from fedapp.ledger import Failure, Ledger, Score, score_metrics, scores_of
from fedapp.run_folder import RunFolder
from fedapp.summary import results
from fedapp.turn import Turn


def turn(tmp_path, phase="train", round=2):
    return Turn(
        round=round,
        rounds=9,
        phase=phase,
        step=0,
        num_clients=4,
        sampled=(),
        seed=0,
        bank=Bank(tmp_path / "bank"),
    )


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


def rows(folder, file):
    with (folder.path / file).open(newline="") as stream:
        return list(csv.reader(stream))


def evaluated(*reports, examples=8):
    metrics = {}
    for index, (model, correct, loss) in enumerate(reports):
        metrics |= score_metrics(index, model, correct, loss)
    return Update({}, examples, metrics, client=3)


def test_scores_are_shares_and_mean_losses_in_the_clients_order():
    found = scores_of(evaluated(("own", 6, 4.0), ("global", 2, 12.0)))
    assert found == [
        Score(3, "own", 8, 0.5, 0.75),
        Score(3, "global", 8, 1.5, 0.25),
    ]


def test_the_tenth_model_comes_after_the_second():
    reports = [(f"m{index}", index % 8, 1.0) for index in range(12)]
    found = scores_of(evaluated(*reports))
    assert [score.model for score in found] == [model for model, *_ in reports]


def test_scores_are_in_order_however_the_metrics_arrive():
    update = evaluated(("own", 6, 4.0), ("global", 2, 12.0))
    backwards = dict(reversed(list(update.metrics.items())))
    found = scores_of(Update({}, 8, backwards, client=3))
    assert found == scores_of(update)


def test_other_metrics_are_no_scores():
    update = evaluated(("own", 6, 4.0))
    more = Update({}, 8, {**update.metrics, "age": 3.0}, client=3)
    assert scores_of(more) == scores_of(update)


@pytest.mark.parametrize(("correct", "loss"), [(0, 0.0), (8, 0.0)])
def test_the_worst_and_the_best_score_are_possible(correct, loss):
    (score,) = scores_of(evaluated(("own", correct, loss)))
    assert score.accuracy == correct / 8


@pytest.mark.parametrize(("correct", "loss"), [(-1, 1.0), (9, 1.0), (4, -0.1)])
def test_an_impossible_score_is_refused(correct, loss):
    message = f"score of model 'own' cannot be: {correct} of 8 right"
    with pytest.raises(ValueError, match=message):
        scores_of(evaluated(("own", correct, loss)))


def test_a_score_without_a_loss_is_refused():
    with pytest.raises(ValueError, match="model 'own' cannot be"):
        scores_of(Update({}, 8, {"00/own/correct": 4}))


def test_a_reply_without_a_score_is_refused():
    with pytest.raises(ValueError, match="it has no score"):
        scores_of(Update({}, 8, {"00/own/loss": 4.0}))


def test_traffic_is_tensors_and_four_bytes_a_scalar_with_evaluation_apart(tmp_path):
    ledger = Ledger()
    payload = {"a": {"w": torch.ones(3), "n": torch.tensor(1)}, "b": {}}
    size = 3 * 4 + 8
    ledger.sent("down", turn(tmp_path), payload, {"mu": 0.5, "on": True})
    ledger.sent("down", turn(tmp_path, "estimate"), payload, {})
    ledger.sent("up", turn(tmp_path), payload, {"loss": 1.0})
    ledger.sent("down", turn(tmp_path, "evaluate"), payload, {"x": 1})
    ledger.sent("up", turn(tmp_path, "evaluate"), {}, {"x": 1, "y": 2})
    assert ledger.traffic == {
        "train_down_bytes": 2 * size + 2 * 4,
        "train_up_bytes": size + 4,
        "evaluate_down_bytes": size + 4,
        "evaluate_up_bytes": 2 * 4,
    }


def scored(tmp_path, last_trained, *accuracies):
    ledger = Ledger(last_trained=last_trained)
    scores = [Score(k, "own", 8, 1.0, a) for k, a in enumerate(accuracies)]
    ledger.scored(turn(tmp_path), scores)
    return ledger.accuracy()


def test_the_tail_leaves_out_clients_that_never_trained_and_the_mean_does_not(tmp_path):
    found = scored(tmp_path, {0: 1, 1: 5}, 0.5, 1.0, 0.0)
    assert (found["mean"], found["worst"], found["gap"]) == (0.5, 0.5, 0.5)


def test_unseen_clients_do_not_count_at_all():
    ledger = Ledger(last_trained={0: 1}, unseen_from=2)
    ledger.scores = [Score(k, "global", 10, 1.0, a) for k, a in enumerate((0.5, 1, 0))]
    found = ledger.accuracy()
    assert (found["mean"], found["worst"], found["gap"]) == (0.75, 0.5, 0)


def test_unseen_clients_are_summed_up_by_model():
    ledger = Ledger(last_trained={0: 1}, unseen_from=1)
    ledger.scores = [
        Score(k, model, 10, 1.0, accuracy)
        for k, model, accuracy in (
            *((0, "own", 1.0), (0, "other", 0.0), (1, "own", 0.5), (1, "other", 0.75)),
            *((2, "own", 0.125), (2, "other", 0.25)),
        )
    ]
    own = {"mean": (0.5 + 0.125) / 2, "worst": 0.125}
    other = {"mean": 0.5, "worst": 0.25}
    assert results(ledger, names="012", groups=())["unseen"] == {
        "clients": 2,
        **own,
        "models": {"own": own, "other": other},
    }


def test_accuracy_is_of_all_clients_if_none_ever_trained(tmp_path):
    found = scored(tmp_path, {}, 0.5, 1.0, 0.0)
    assert (found["mean"], found["worst"]) == (0.5, 0.0)


def test_the_first_model_of_a_client_stands_for_the_method(tmp_path):
    ledger = Ledger()
    own, other = Score(0, "own", 8, 1.0, 0.75), Score(0, "global", 8, 1.0, 0.25)
    ledger.scored(turn(tmp_path), [own, other])
    assert ledger.main_scores() == [own]
    assert ledger.accuracy()["mean"] == 0.75


def test_an_evaluation_replaces_the_one_before(tmp_path):
    ledger = Ledger()
    ledger.scored(turn(tmp_path), [Score(0, "own", 8, 1.0, 0.75)])
    ledger.scored(turn(tmp_path), [Score(0, "own", 8, 1.0, 0.25)])
    assert ledger.accuracy()["mean"] == 0.25


def test_every_score_is_a_row_of_metrics_csv(tmp_path, folder):
    ledger = Ledger(folder, last_trained={1: 2})
    now = turn(tmp_path, "evaluate", round=4)
    ledger.scored(
        now, [Score(0, "own", 8, 1.5, 0.25), Score(1, "global", 4, 0.5, 0.75)]
    )
    header = "round,phase,client,model,examples,loss,accuracy,trained"
    assert rows(folder, "metrics.csv") == [
        [*header.split(","), "last_trained_round"],
        ["4", "evaluate", "0", "own", "8", "1.5", "0.25", "false", "0"],
        ["4", "evaluate", "1", "global", "4", "0.5", "0.75", "true", "2"],
    ]


def test_times_of_clients_are_rows_of_timing_csv(tmp_path, folder):
    Ledger(folder).took(turn(tmp_path), 3, 1.23456)
    assert rows(folder, "timing.csv") == [
        ["round", "phase", "client", "seconds"],
        ["2", "train", "3", "1.2346"],
    ]


def test_a_dropped_reply_is_kept_and_logged_by_the_clients_name(tmp_path, caplog):
    ledger = Ledger()
    with caplog.at_level("WARNING", logger="flwr"):
        ledger.failed(turn(tmp_path), 3, "anna", "it is away")
    assert ledger.failures == [Failure(2, "train", 3, "it is away")]
    caplog_text = [record.getMessage() for record in caplog.records]
    assert caplog_text == ["[round 2] train: reply of client anna dropped: it is away"]


def test_seconds_add_up(monkeypatch):
    ledger, now = Ledger(), 10.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert ledger.spent("train", 7.0) == 10.0
    ledger.spent("train", 9.5)
    assert ledger.seconds == {"train": 3.5}


def test_tables_of_a_method_go_to_the_folder_if_there_is_one(folder):
    Ledger().row("m/t.csv", {"round": 1})
    Ledger(folder).row("m/t.csv", {"round": 1})
    assert rows(folder, "m/t.csv") == [["round"], ["1"]]
