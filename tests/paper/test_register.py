"""Register of rules: no claim without an entry, no changed rule without a new one, a mark where data came first."""

import ast
import json
import subprocess
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import register_rules as tool
from supple_lab.paper import register
from supple_lab.paper.register import FILE, dated, registered_claims, rules
from supple_lab.report.figure import ClaimRow
from supple_lab.report.tables import claims_table, printed_claims

ROOT = Path(__file__).parents[2]
WRITTEN = json.loads(FILE.read_text())
KEY = "drop_relu_and_aid_keep_permuted_online"


def row_of(key, runs):
    study, claim = registered_claims()[key]
    words = {"claim": claim.claim, "paper": claim.paper, "study": study, "rule": claim.text}
    return ClaimRow(measured="0.1", interval=None, n=len(runs), verdict="fails", runs=tuple(runs), **words)


@pytest.mark.parametrize("key", tool.texts())
def test_every_rule_is_registered_as_it_stands(key):
    assert key in rules(), "run tools/register_rules.py after the commit that sets the rule"
    assert tool.in_force(WRITTEN, key) == tool.digest_of(tool.texts()[key]), (
        "run tools/register_rules.py after the commit"
    )


def test_nothing_else_is_registered_and_no_rule_follows_itself():
    assert set(rules()) == set(tool.texts())
    for every in rules().values():
        assert all(tool.digest_of(rule.test) == rule.digest for rule in every)
        assert all(one.digest != other.digest for one, other in pairwise(every))
        assert [rule.date for rule in every] == sorted(rule.date for rule in every)


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@cache
def strings_at(commit):
    """Every string in the files of claims at the commit, on one line."""
    names = git("ls-tree", "-r", "--name-only", commit, "src/supple_lab").split()
    trees = [ast.parse(git("show", f"{commit}:{name}")) for name in names if "claims" in Path(name).name]
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {" ".join(str(node.value).split()) for node in nodes if isinstance(node, ast.Constant)}


def has_history():
    return (ROOT / ".git").exists() and git("rev-parse", "--is-shallow-repository").strip() == "false"


@pytest.mark.skipif(not has_history(), reason="no history here")
def test_the_commit_of_a_rule_is_in_the_history_and_brings_its_text():
    for key, every in rules().items():
        for rule in every:
            assert git("log", "-1", "--format=%cs", rule.commit).strip() == rule.date, (key, rule.commit)
            git("merge-base", "--is-ancestor", rule.commit, "HEAD")
            if not rule.rendered:
                assert rule.test in strings_at(rule.commit), (key, rule.commit)
                assert rule.test not in strings_at(f"{rule.commit}^"), (key, rule.commit)


def test_a_row_says_how_many_of_its_runs_its_rule_came_after(monkeypatch):
    rule = replace(rules()[KEY][-1], runs=frozenset({"a", "b"}), date="2026-11-16", commit="7d27f94")
    monkeypatch.setattr(register, "rules", lambda: {KEY: (rule,)})
    some, all_, none = (dated(row_of(KEY, runs)) for runs in ("abc", "ab", "cd"))
    assert (some.rule_date, some.rule_commit, some.num_before) == ("2026-11-16", "7d27f94", 2)
    assert some.rule_set == "2026-11-16, after the data of 2 of 3 runs"
    assert all_.rule_set == "2026-11-16, after the data"
    assert none.rule_set == "2026-11-16"
    table, printed = claims_table((some, none)), printed_claims((some, none))
    column = table.header.index("rule set")
    assert [row[column] for row in table.rows] == [some.rule_set, none.rule_set]
    assert [row[3] for row in printed.rows] == ["fails (rule set after the data of 2 of 3 runs)", "fails"]


def test_a_claim_that_is_not_the_papers_has_no_date():
    row = replace(row_of(KEY, "a"), claim="Of a plugin's study.")
    assert dated(row) == row
    assert claims_table((row,)).rows[0][-2] == "–"


def test_only_typed_rules_in_force_are_worded_anew():
    last = {every[-1].digest for every in rules().values() if not every[-1].rendered}
    assert set(WRITTEN["reworded"]) <= last
