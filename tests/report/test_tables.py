"""Tables in three formats, with the escapes of each."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
from samples import CLAIM, TABLE, run

from supple.methods.activations import UseAID
from supple_lab.report.claims_table import SELECTED, claims_table
from supple_lab.report.figure import ClaimRow, Part, Table
from supple_lab.report.intervals import SEED, bootstrap_interval, show
from supple_lab.report.results import Results
from supple_lab.report.select import select
from supple_lab.report.tables import best_of_columns, column_kinds, comma_separated, latex, markdown

HOSTILE = 'a|b\\c_d & 50% $x$ #1 {y} ~z^2 <b> "q", *s*\nnext'
HOSTILE_TABLE = Table(name="bad_name", caption="100% & more", header=("a|b", "c"), rows=((HOSTILE, "1"),))


def pipe_cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_markdown_has_a_line_per_row_and_a_cell_per_column():
    lines = markdown(TABLE).splitlines()
    assert lines[0] == "First and last; mean."
    assert [pipe_cells(line) for line in lines[2:]] == [
        ["method", "first", "last"],
        ["---", "--:", "--:"],
        ["AID", "0.9 ± 0.1", "0.9"],
        ["ReLU", "1.0", "-0.1"],
    ]


def test_markdown_keeps_hostile_text_in_its_cell():
    row = markdown(HOSTILE_TABLE).splitlines()[-1]
    cells = pipe_cells(row)
    assert len(cells) == 2
    assert re.sub(r"\\(.)", r"\1", cells[0]) == HOSTILE.replace("\n", " ")
    assert r"\<b\>" in row


def test_numbers_are_set_to_the_right_and_prose_wraps():
    claims = claims_table((CLAIM, replace(CLAIM, claim="A long claim that will not fit beside the others.")))
    assert column_kinds(TABLE) == ["word", "number", "number"]
    assert column_kinds(claims) == ["prose", "number", "word", "number", "number", "number", "word"]
    assert r"\begin{longtable}{p{0.60\linewidth}rlrrrl}" in latex(claims)
    assert r"\begin{tabular}{lrr}" in latex(TABLE)


def test_a_table_without_rows_is_a_header():
    empty = replace(TABLE, rows=())
    assert markdown(empty).count("\n") == 4
    assert comma_separated(empty) == "method,first,last\n"
    assert r"method & first & last" in latex(empty)


def test_latex_escapes_every_special_letter():
    text = latex(HOSTILE_TABLE)
    row = next(line for line in text.splitlines() if "next" in line)
    assert row == (
        r"    a\textbar{}b\textbackslash{}c\_d \& 50\% \$x\$ \#1 \{y\} \textasciitilde{}z\textasciicircum{}2 "
        r'\textless{}b\textgreater{} "q", *s* next & 1 \\'
    )
    assert r"\caption{100\% \& more}" in text
    assert r"\label{tab:bad-name}" in text


def test_latex_is_ascii_where_the_table_has_a_plus_minus():
    text = latex(TABLE)
    assert r"0.9 $\pm$ 0.1" in text
    assert text.isascii()
    assert text.count(r" \\") == 3


def test_csv_gives_back_the_cells_as_they_were():
    rows = list(csv.reader(io.StringIO(comma_separated(HOSTILE_TABLE))))
    assert rows == [["a|b", "c"], [HOSTILE, "1"]]


def test_claims_become_a_table_with_their_interval_and_verdict():
    not_run = ClaimRow(claim="c", paper="p", measured="", interval=None, n=0, verdict="not run")
    table = claims_table((CLAIM, not_run))
    assert table.rows[0] == ("AID keeps learning.", "–", "it does", "0.9", "0.800 to 0.950", "3", "holds")
    assert table.rows[1][3:] == ("–", "–", "0", "not run")


def test_prose_may_break_across_pages_under_a_header_on_each():
    prose = replace(TABLE, rows=(("A long cell that will not fit beside the others.", "0.9", "0.9"),) * 2)
    lines = [line.strip() for line in latex(prose, label="study_ends").splitlines()]
    assert lines[1:3] == [
        r"\begin{longtable}{p{0.60\linewidth}rr}",
        r"\caption{First and last; mean.}\label{tab:study-ends} \\",
    ]
    header = [r"\toprule", r"method & first & last \\", r"\midrule"]
    ends = [r"\endhead", r"\bottomrule", r"\endlastfoot"]
    assert lines[3:13] == [*header, r"\endfirsthead", *header, *ends]
    assert lines[-1] == r"\end{longtable}"
    assert len(lines) == 3 + 10 + 2 + 1
    assert "table}" in latex(TABLE)
    assert "longtable" not in latex(TABLE)


def test_a_brief_table_of_claims_leaves_the_list_of_parts_out():
    part = Part(name="a", measured="0.1", interval=None, n=3, verdict="holds")
    row = replace(CLAIM, measured="holds in 1 of 1 (at least 1?): holds in a", parts=(part,))
    shown = [claims_table((row,), brief=brief).rows[0][3] for brief in (True, False)]
    assert shown == ["holds in 1 of 1 (at least 1?)", row.measured]
    assert claims_table((CLAIM,), brief=True).rows[0][3] == CLAIM.measured


def test_caption_of_the_claims_says_what_was_selected_on_the_seeds_reported():
    chosen = select(Results(tuple(run(UseAID(relu_prob=p)) for p in (0.7, 0.9))), "train_accuracy").words()
    captions = [claims_table((CLAIM,), notes=notes).caption for notes in ((), ("Slim.",), ("Slim.", chosen))]
    assert [SELECTED in caption for caption in captions] == [False, False, True]
    assert captions[1].endswith("A note on the study's page tells what differs from the paper.")
    assert captions[2].endswith("2 notes on the study's page tell what differs from the paper.")


def test_bold_cells_are_bold_in_markdown_and_latex_and_plain_in_csv():
    bold = replace(TABLE, bold=frozenset({(0, 1), (1, 2)}))
    assert "| AID | **0.9 ± 0.1** | 0.9 |" in markdown(bold)
    assert r"ReLU & 1.0 & \textbf{-0.1} \\" in latex(bold)
    assert comma_separated(bold) == comma_separated(TABLE)


def test_best_of_a_column_is_its_highest_number_and_all_equal_to_it():
    values = np.array([[0.5, np.nan, 0.1], [0.7, np.nan, 0.3], [0.7, np.nan, np.nan]])
    assert best_of_columns(values, columns=(1, 2, 4)) == {(1, 1), (2, 1), (1, 4)}
    assert best_of_columns(np.zeros((0, 2)), columns=(1, 2)) == frozenset()


def test_nothing_is_best_where_all_are_equal():
    assert best_of_columns(np.array([[0.1, 0.1], [0.1, 0.2]]), columns=(1, 2)) == {(1, 2)}
    assert best_of_columns(np.array([[0.1]]), columns=(1,)) == {(0, 1)}


def test_bootstrap_intervals_stand_in_brackets_in_markdown_and_latex_and_in_columns_of_csv():
    values = np.array([0.4, 0.6, 0.8])
    low, high = bootstrap_interval(values, np.random.default_rng(SEED))
    table = replace(TABLE, rows=(("AID", show(values), "0.9"), ("ReLU", show(values[:1]), "0.1")), bold={(0, 1)})
    brackets = f"[{low:.3f}, {high:.3f}]"
    marked = brackets.replace("[", r"\[").replace("]", r"\]")
    assert f"| AID | **0.600 ± 0.200** {marked} | 0.9 |" in markdown(table)
    assert rf"AID & \textbf{{0.600 $\pm$ 0.200}} {brackets} & 0.9 \\" in latex(table)
    header, aid, relu = csv.reader(io.StringIO(comma_separated(table)))
    assert header == ["method", "first", "first: 95% bootstrap from", "first: 95% bootstrap to", "last"]
    assert aid == ["AID", "0.600 ± 0.200", f"{low:.3f}", f"{high:.3f}", "0.9"]
    assert relu == ["ReLU", "0.400", "", "", "0.1"]
    assert all("95% percentile bootstrap interval" in text(table).replace("\\%", "%") for text in (markdown, latex))
    assert "bootstrap" not in markdown(TABLE)
