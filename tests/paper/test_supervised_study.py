"""Supervised: its table beside ours, and its three claims decided by their rules."""

from dataclasses import replace

import pytest
from made_runs import drawn, made, made_run, verdicts, wavering

from supple_lab.paper.compare import label_of
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.supervised import SUPERVISED_TABLE, Supervised
from supple_lab.results.intervals import format_mean
from supple_lab.results.results import Results

PAPER = StudyOptions(scale="paper")
STUDY = Supervised()


def as_in_the_paper(spec, **off):
    mean, _ = SUPERVISED_TABLE[spec.method.name][spec.model.name]
    return wavering(spec, mean + off.get(spec.method.name, 0.0))


def test_table_has_the_papers_numbers_beside_ours_and_the_best_in_bold():
    table = drawn(STUDY, PAPER, as_in_the_paper).tables[0]
    assert table.header[1:4] == ("CNN on CIFAR-10 (n = 5)", "CNN on CIFAR-10, paper", "CNN on CIFAR-10, training")
    assert table.header[7] == "VGG-16 on TinyImageNet (n = 3)"
    assert table.rows[0][:3] == ("ReLU", "0.662 ± 0.002", "0.660 ± 0.006")
    assert table.rows[3][7:9] == ("0.520 ± 0.001", "0.519 ± 0.004")
    assert table.bold == {(3, 1), (3, 4), (3, 7)}


@pytest.mark.parametrize("scale", ["smoke", "quick"])
def test_the_papers_numbers_stand_beside_runs_of_its_protocol_alone(scale):
    order = StudyOptions(scale=scale)
    table = drawn(STUDY, order, as_in_the_paper).tables[0]
    assert not any("paper" in name for name in table.header)
    assert table.header[1].endswith("CNN on digits (n = 1)" if scale == "smoke" else "CNN on digits (n = 3)")
    assert table.header[2].endswith("CNN on digits, training")
    assert (3, 1) in table.bold
    assert (3, 3) in table.bold


def test_table_shows_the_training_accuracies_that_the_gap_is_taken_from():
    results = made(STUDY.specs(PAPER), as_in_the_paper)
    table = STUDY.draw(results, PAPER).tables[0]
    for row in table.rows:
        of_it = results.where(lambda spec, row=row: label_of(spec.method.name) == row[0] and spec.model.name == "vgg16")
        assert row[9] == format_mean(of_it.final("train_accuracy").values)


def with_dropout_as(method):
    def swapped(spec):
        name = method if spec.method.name == "dropout" else spec.method.name
        return wavering(spec, SUPERVISED_TABLE[name][spec.model.name][0] - 0.002)  # seeds waver by 0 to 0.004

    return swapped


@pytest.mark.parametrize(
    ("values_of", "numbers", "lead"),
    [
        (as_in_the_paper, "holds", "holds"),
        (lambda spec: as_in_the_paper(spec, vanilla=-0.02), "fails", "holds"),  # two points off
        (lambda spec: as_in_the_paper(spec, dropout=0.1), "fails", "fails"),  # AID behind Dropout
        (with_dropout_as("vanilla"), "fails", "holds"),  # another row is no row that comes out again
        (with_dropout_as("l2"), "fails", "holds"),
        (with_dropout_as("aid"), "fails", "not decided"),
    ],
)
def test_numbers_and_lead_are_decided_by_their_own_rules(values_of, numbers, lead):
    assert verdicts(STUDY, PAPER, values_of)[:2] == [numbers, lead]


def gaps(spec, *, in_evaluation, in_training):
    """A run whose training accuracies are so far above its test accuracy after the last epoch, by mode."""
    run = made_run(spec, as_in_the_paper(spec))
    (record,) = run.records
    test = record["test_accuracy"]
    log = (
        {"stage": 0, "epoch": 0, "online_accuracy": 0.1},
        {"stage": 0, "epoch": 1, "online_accuracy": test + in_training},
    )
    return replace(run, records=({**record, "train_accuracy": test + in_evaluation},), read_epochs=lambda: log)


@pytest.mark.parametrize(
    ("in_evaluation", "in_training", "verdict"),
    [(0.1, 0.1, "holds"), (0.3, 0.3, "fails"), (0.3, 0.1, "not decided"), (0.1, 0.3, "not decided")],
)
def test_the_gap_is_judged_in_both_modes_and_they_must_agree(in_evaluation, in_training, verdict):
    own = {"in_evaluation": in_evaluation, "in_training": in_training}
    others = {"in_evaluation": 0.2, "in_training": 0.2}

    def gap(spec):
        return {
            name: value + 0.001 * spec.seed for name, value in (own if spec.method.name == "aid" else others).items()
        }

    results = Results(tuple(gaps(spec, **gap(spec)) for spec in STUDY.specs(PAPER)))
    row = STUDY.draw(results, PAPER).claims[2]
    assert row.verdict == verdict
    assert [part.name for part in row.parts] == ["evaluation mode", "training mode"]


def test_curves_are_drawn_by_epoch_training_above_test():
    accuracy, loss = drawn(STUDY, PAPER, as_in_the_paper).figures
    assert [panel.y_label for panel in accuracy.panels] == ["training accuracy"] * 3 + ["test accuracy"] * 3
    assert [panel.y_label for panel in loss.panels] == ["training loss"] * 3 + ["test loss"] * 3
    assert accuracy.columns == 3
    assert accuracy.panels[0].curves[0].x.tolist() == [1, 2]
