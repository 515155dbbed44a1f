"""Tables in three formats, with the escapes of each."""

import ast
import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from samples import CLAIM, TABLE, run

import supple_lab
from supple.methods import UseAID
from supple_lab.report.figure import ClaimRow, Part, Table
from supple_lab.report.tables import (
    SELECTED,
    best_of_columns,
    claims_table,
    column_kinds,
    comma_separated,
    latex,
    markdown,
    minus,
    printed_claims,
)
from supple_lab.results.intervals import SEED, bootstrap_interval, format_mean
from supple_lab.results.results import Results
from supple_lab.results.select import select

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
    claims = printed_claims((CLAIM, replace(CLAIM, claim="A long claim that will not fit beside the others.")))
    assert column_kinds(TABLE) == ["word", "number", "number"]
    assert column_kinds(claims) == ["prose", "word", "prose", "word"]
    prose = r">{\raggedright\arraybackslash}p{0.30\linewidth}"
    assert rf"\begin{{longtable}}{{{prose}l{prose}l}}" in latex(claims)
    assert r"\begin{tabular}{lrr}" in latex(TABLE)


def test_latex_escapes_every_special_letter():
    text = latex(HOSTILE_TABLE)
    row = next(line for line in text.splitlines() if "next" in line)
    assert row == (
        r"    a\textbar{}b\textbackslash{}c\_d \& 50\% \$x\$ \#1 \{y\} \textasciitilde{}z\textasciicircum{}2 "
        r'\textless{}b\textgreater{} "q", *s* next & 1 \\'
    )
    assert r"\caption{100\% \& more}" in text
    assert r"\label{tab:bad-name}" in text


def test_latex_has_a_mark_for_every_letter_that_studies_and_tables_write():
    folder = Path(supple_lab.__file__).parent
    files = [*(folder / "paper").rglob("*.py"), folder / "results" / "intervals.py", folder / "report" / "tables.py"]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    strange = {letter for text in texts for letter in text if not letter.isascii()}
    assert strange >= set("±−–²")
    assert latex(replace(TABLE, caption="".join(sorted(strange)))).isascii()


def test_latex_tells_a_minus_from_a_hyphen_and_an_option_from_a_dash():
    signs = latex(replace(TABLE, rows=(("0.9 ± 0.1", "≥ 2 × 3", "≈ 1"), ("–", "\N{MINUS SIGN}1", "x²"))))
    assert r"0.9 $\pm$ 0.1 & $\geq$ 2 $\times$ 3 & $\approx$ 1 \\" in signs
    assert r"\textendash{} & $-$1 & x$^2$ \\" in signs
    cells = ("-0.1 [-0.2, -0.05]", "1e-05 in warm-start", "run --json a/b-1")
    row = latex(replace(TABLE, rows=(cells,))).splitlines()[-4]
    minus = r"$-$0.1 [$-$0.2, $-$0.05]"
    assert row.strip() == rf"{minus} & 1e-05 in warm-start & run -{{}}-json a\slash{{}}b-1 \\"


def test_a_row_of_latex_that_begins_with_a_bracket_is_no_argument_of_the_row_before():
    text = latex(replace(TABLE, header=("[a]", "b", "c"), rows=(("*", "1", "2"), ("[1]", "[2]", "3"))))
    for row in (r"{}[a] & b & c \\", r"{}* & 1 & 2 \\", r"{}[1] & [2] & 3 \\"):
        assert f"    {row}" in text.splitlines()


def test_latex_tables_are_no_wider_than_the_text_and_name_the_packages_they_need():
    lines = latex(TABLE).splitlines()
    assert lines[0] == r"% needs \usepackage{booktabs,graphicx}"
    fitted = r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    assert lines[lines.index(r"  \begin{tabular}{lrr}") - 1] == fitted
    assert lines[-2] == r"  \end{tabular}}"
    text = latex(TABLE)
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_claims_become_a_table_with_their_interval_and_verdict():
    not_run = ClaimRow(claim="c", paper="p", measured="", interval=None, n=0, verdict="not run")
    table = claims_table((CLAIM, not_run))
    assert table.rows[0] == ("AID keeps learning.", "–", "it does", "0.9", "0.800 to 0.950", "3", "holds", "–", "–")
    assert table.rows[1][3:] == ("–", "–", "0", "not run", "–", "–")


def test_prose_may_break_across_pages_under_a_header_on_each():
    prose = replace(TABLE, rows=(("A long cell that will not fit beside the others.", "0.9", "0.9"),) * 2)
    lines = [line.strip() for line in latex(prose, label="study_ends").splitlines()]
    assert lines[1:3] == [
        r"\begin{longtable}{>{\raggedright\arraybackslash}p{0.60\linewidth}rr}",
        r"\caption{First and last; mean.}\label{tab:study-ends} \\",
    ]
    header = [r"\toprule", r"method & first & last \\", r"\midrule"]
    ends = [r"\endhead", r"\bottomrule", r"\endlastfoot"]
    assert lines[3:13] == [*header, r"\endfirsthead", *header, *ends]
    assert lines[-1] == r"\end{longtable}"
    assert [line == r"\addlinespace" for line in lines[13:-1]] == [False, True, False]
    assert "table}" in latex(TABLE)
    assert "longtable" not in latex(TABLE)


def test_claims_on_paper_have_four_columns_and_no_list_of_parts():
    part = Part(name="a", measured="0.1", interval=None, n=3, verdict="holds")
    parts = replace(CLAIM, measured="holds in 1 of 1 (at least 1?)", interval=None, parts=(part,), remark="by chance")
    not_run = replace(CLAIM, measured="", interval=None, n=0, verdict="not run", section="5.1")
    table = printed_claims((CLAIM, parts, not_run))
    assert table.header == ("claim", "the paper says", "measured", "verdict")
    assert [row[2] for row in table.rows] == [
        "0.9; 95% interval 0.800 to 0.950; n = 3",
        "holds in 1 of 1 (at least 1?); by chance; n = 3",
        "–",
    ]
    assert [row[1] for row in table.rows] == ["it does", "it does", "it does (5.1)"]
    assert claims_table((parts,)).rows[0][3] == "holds in 1 of 1 (at least 1?): holds in a; by chance"


def test_each_claim_says_in_the_files_that_settings_were_selected_on_the_seeds_reported():
    chosen = select(Results(tuple(run(UseAID(relu_prob=p)) for p in (0.7, 0.9))), "train_accuracy").words()
    claims = (CLAIM, replace(CLAIM, n=0, verdict="not run"))
    files = [comma_separated(claims_table(claims, notes=notes)) for notes in ((chosen,), ("Slim.",))]
    told = [[row["note"] for row in csv.DictReader(io.StringIO(text))] for text in files]
    assert told == [["some settings were selected on the very seeds reported", "–"], ["–", "–"]]
    captions = [printed_claims(claims, notes=notes).caption for notes in ((), ("Slim.",), ("Slim.", chosen))]
    assert [SELECTED in caption for caption in captions] == [False, False, True]
    assert captions[1].endswith("A note on the study's page tells what differs from the paper.")
    assert captions[2].endswith("2 notes on the study's page tell what differs from the paper.")


def test_bold_cells_are_bold_in_markdown_and_latex_and_plain_in_csv():
    bold = replace(TABLE, bold=frozenset({(0, 1), (1, 2)}))
    assert "| AID | **0.9 ± 0.1** | 0.9 |" in markdown(bold)
    assert r"ReLU & 1.0 & \textbf{$-$0.1} \\" in latex(bold)
    assert comma_separated(bold) == comma_separated(TABLE)


def test_best_of_a_column_is_its_highest_number_and_all_equal_to_it():
    values = np.array([[0.5, np.nan, 0.1], [0.7, np.nan, 0.3], [0.7, np.nan, np.nan]])
    assert best_of_columns(values, columns=(1, 2, 4)) == {(1, 1), (2, 1), (1, 4)}
    assert best_of_columns(np.zeros((0, 2)), columns=(1, 2)) == frozenset()
    assert best_of_columns(np.array([[0.1, 0.1], [0.1, 0.2]]), columns=(1, 2)) == {(1, 2)}  # all equal: none is best
    assert best_of_columns(np.array([[0.1]]), columns=(1,)) == {(0, 1)}


def test_bootstrap_intervals_stand_in_brackets_in_markdown_and_latex_and_in_columns_of_csv():
    values = np.array([0.4, 0.6, 0.8])
    low, high = bootstrap_interval(values, np.random.default_rng(SEED))
    table = replace(
        TABLE, rows=(("AID", format_mean(values), "0.9"), ("ReLU", format_mean(values[:1]), "0.1")), bold={(0, 1)}
    )
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-0.1", "−0.1"),
        ("-0.021 [-0.025, -0.019] (n = 3)", "−0.021 [−0.025, −0.019] (n = 3)"),
        ("from -2500 to (-3)", "from −2500 to (−3)"),
        ("-3.7e-16: smallest", "−3.7e-16: smallest"),
    ],
)
def test_every_negative_number_has_a_true_minus(text, shown):
    assert minus(text) == shown


@pytest.mark.parametrize("text", ["1e-05", "ResNet-18", "warm-start", "--seeds 3", "sections 5.1-5.2", "a - b", ""])
def test_other_hyphens_stay(text):
    assert minus(text) == text
