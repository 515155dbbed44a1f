"""Asked: nothing is said of what was not asked for, and nothing that was is lost."""

from dataclasses import replace

from samples import CLAIM, TABLE, bars, curve, figure, panel, study_report

from supple_lab.report.figure import StudyReport
from supple_lab.report.write import only_asked

NOT_RUN = replace(CLAIM, claim="Another.", verdict="not run", measured="", interval=None, n=0)


def trimmed(table):
    (found,) = only_asked(StudyReport(figures=(), tables=(table,), claims=())).tables
    return found


def test_claims_that_nothing_was_run_for_and_empty_panels_are_left_out_without_a_word():
    drawn, empty = panel(curve()), figure(panel())
    asked = only_asked(study_report(figure(panel(title="ResNet-18"), drawn), empty, claims=(NOT_RUN, CLAIM)))
    assert asked.claims == (CLAIM,)
    left, kept = asked.figures
    assert kept == empty  # a figure without any curve keeps its panels
    assert left.panels == (drawn,)
    assert left.filled().caption == left.caption


def test_rows_and_columns_of_dashes_are_left_out_and_bold_cells_move_along():
    table = replace(
        TABLE,
        header=("method", "ResNet-18", "CNN", "n"),
        rows=(("ReLU", "–", "–", "0"), ("AID", "–", "0.9 ± 0.1", "3"), ("L2", "–", "0.8 ± 0.1", "3")),
        bold=frozenset({(1, 2)}),
    )
    left = trimmed(table)
    assert left.header == ("method", "CNN", "n")
    assert left.rows == (("AID", "0.9 ± 0.1", "3"), ("L2", "0.8 ± 0.1", "3"))
    assert left.bold == {(0, 1)}


def test_a_table_of_dashes_is_left_out_and_one_of_values_stays_as_it_is():
    dashes = replace(TABLE, rows=(("AID", "–", "–"), ("ReLU", "–", "–")))
    assert only_asked(study_report(figure(bars()), tables=(dashes, TABLE))).tables == (TABLE,)
