"""register_rules: note each rule of a claim that is new or changed, with its commit and the runs published by then.

python tools/register_rules.py, after the commit that sets the rules. With --reworded, what is new are the rules in
force in other words, which keep their dates: tests/paper/test_reworded.py must pass before and after. It writes
src/supple_lab/paper/register.json, docs/register.md and the last section of docs/verdicts_in_detail.md. A later rebase
gives that commit another name, which tests/paper/test_register.py then does not find: take its entries out of
register.json, and run this again.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from supple_lab.paper import claims
from supple_lab.paper.register import OTHERS, STUDIES, registered_claims

ROOT = Path(__file__).parent.parent
REGISTER = ROOT / "src/supple_lab/paper/register.json"
RULES = "src/supple_lab/paper/*.py"
RESULTS = ROOT / "docs/results"
PAGE, VERDICTS = ROOT / "docs/register.md", ROOT / "docs/verdicts_in_detail.md"
HEADING = "## How many claims, and how often chance decides one"
SHARED = "shared"  # the key of what claims.py says of all rules, to which each of them refers
LEVEL = 0.05  # of each claim
Json = dict[str, Any]


def main() -> None:
    register = json.loads(REGISTER.read_text())
    published = reports()
    if git("status", "--porcelain", "--", RULES):
        raise SystemExit(f"{RULES} has changes without a commit, and a rule is registered with its own. Commit them.")
    commit, date = git("log", "-1", "--format=%h %cs", "--", RULES).split()
    if "--reworded" in sys.argv:
        reword(register)
    for key in changed(register):
        entry = new_entry(register, key, commit=commit, date=date, published=published)
        seen = sum(len(register["runs"][name]) for name in entry["runs"])
        print(f"{key}: set in {commit} on {date}; {seen} published runs of its study exist")
    REGISTER.write_text(json.dumps(register, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(register, published))
    before = VERDICTS.read_text().partition(HEADING)[0].rstrip()
    VERDICTS.write_text(f"{before}\n\n{HEADING}\n\n{error_rate(published)}")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def reports() -> dict[str, Json]:
    paths = {study: RESULTS / study / f"{study}.json" for study in (*STUDIES, *OTHERS)}
    return {study: json.loads(path.read_bytes()) for study, path in paths.items() if path.exists()}


def texts() -> dict[str, str]:
    """What is registered today: the rule of each claim by its key, and what is said of all."""
    shared = " ".join((claims.__doc__ or "").split())
    return {SHARED: shared} | {key: claim.text for key, (_, claim) in registered_claims().items()}


def in_force(register: Json, key: str) -> str:
    """The digest of the text that a rule of the register has today; empty if there is none."""
    every = register["rules"].get(key)
    return register["reworded"].get(every[-1]["digest"], every[-1]["digest"]) if every else ""


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def changed(register: Json) -> list[str]:
    """The keys whose rule is not the last one registered."""
    return [key for key, text in texts().items() if in_force(register, key) != digest_of(text)]


def reword(register: Json) -> None:
    """Note today's words of the rules in force: they are the same rules."""
    for key in changed(register):
        if key in register["rules"]:
            register["reworded"][register["rules"][key][-1]["digest"]] = digest_of(texts()[key])


def new_entry(register: Json, key: str, *, commit: str, date: str, published: dict[str, Json]) -> Json:
    """Add today's rule of a claim, and the runs of its study that exist, named once for all rules."""
    study = "" if key == SHARED else registered_claims()[key][0]
    ids = [run["id"] for run in published.get(study, {}).get("runs", ()) if run["status"] in ("done", "diverged")]
    if ids:
        register["runs"].setdefault(f"{study} published by {commit}", ids)
    entry = {
        "digest": digest_of(texts()[key]),
        "commit": commit,
        "date": date,
        "test": texts()[key],
        "runs": [f"{study} published by {commit}"] if ids else [],
        "rendered": True,
    }
    register["rules"].setdefault(key, []).append(entry)
    return entry


def page(register: Json, published: dict[str, Json]) -> str:
    """docs/register.md: every claim's rule, when it was set, and what existed."""
    *_, shared = register["rules"][SHARED]
    lines = [
        "# Register of rules",
        "",
        "When the rule of each claim was set, by which commit, and how many of the published runs that it decides on",
        "had been made by then. A rule set after its data may have been chosen by them: reports mark such a verdict,",
        "and runs that come later are the test of it. A run counts as made before unless its own commit has the rule.",
        "What is registered is the text of a rule; `tools/register_rules.py` adds to it and writes this page.",
        "",
        "Rules were typed at first. They now render their text themselves, so that code and text cannot differ. A rule",
        "that was only reworded keeps its date: a test compares what both decide on published and on made-up runs.",
        "",
        "A measurement of time is no run: what was known when its rule was set is on the page of "
        "[theory](results/theory.md).",
        "",
        "What all rules share, such as when a claim over several networks holds, was last changed on "
        f"{shared['date']} in `{shared['commit']}`.",
        "",
        "| claim | rule set | commit | its runs by then | its runs now | verdict published |",
        "|---|---|---|--:|--:|---|",
    ]
    rows = {(study, row["claim"]): row for study, told in published.items() for row in told["claims"]}
    for key, (study, claim) in registered_claims().items():
        *_, rule = register["rules"][key]
        row = rows.get((study, claim.claim), {"runs": [], "verdict": "not run"})
        before = {run for name in rule["runs"] for run in register["runs"][name]}.intersection(row["runs"])
        date = f"**{rule['date']}, after data**" if before else rule["date"]
        name, numbers = f"{study}: {claim.claim}", f"{len(before)} | {len(row['runs'])}"
        scale = f", {published[study]['scale']} scale" if study in OTHERS and row["runs"] else ""
        lines.append(f"| {name} | {date} | `{rule['commit']}` | {numbers} | {row['verdict']}{scale} |")
    lines += ["", "## Rules that were changed", "", "The one in force comes last.", ""]
    for key, every in register["rules"].items():
        if len(every) > 1 and key != SHARED:
            study, claim = registered_claims()[key]
            rules = [f"- {rule['date']}, `{rule['commit']}`: {rule['test']}" for rule in every]
            lines += [f"**{study}: {claim.claim}**", "", *rules, ""]
    return "\n".join(lines) + "\n"


def error_rate(published: dict[str, Json]) -> str:
    """How often chance decides one of so many claims, and which decided ones outlast Holm's correction."""
    papers = registered_claims(STUDIES).values()
    claims = {(study, claim.claim) for study, claim in papers if claim.is_papers}
    every = [(study, row) for study, told in published.items() for row in told["claims"]]
    every = [(study, row) for study, row in every if (study, row["claim"]) in claims and row["runs"]]
    rows = [(study, row) for study, row in every if row["verdict"] != "not run"]
    decided = sorted((row["chance"], study, row) for study, row in rows if row["verdict"] in ("holds", "fails"))
    parts = [part for _, row in rows for part in leaves(row) if part["verdict"] != "not run"]
    num_parts = sum(part["verdict"] in ("holds", "fails") for part in parts)
    lines = [
        f"{len(claims)} claims of the paper have a rule ([register](register.md)). {len(rows)} of them were tested by "
        f"the published runs, that is, something was run for them; {len(decided)} are decided as the paper states "
        "them, over all of their networks, optimizers or games. The rest are open, mostly because some of those were "
        "not run. What rests on measurements of time alone is not counted: turns are no seeds.",
        "",
        f"Each claim is decided at {LEVEL:.0%}: if the truth lay on the threshold, so often would chance decide it. If "
        f"that were so for all {len(rows)}, {LEVEL * len(rows):.1f} wrong decisions would be expected, and at least "
        f"one with a probability of {1 - (1 - LEVEL) ** len(rows):.0%}, if they were independent. The rows above on "
        f"one network or problem rest on {len(parts)} comparisons, of which {num_parts} are decided; there "
        f"{LEVEL * len(parts):.1f} would be expected by chance alone.",
        "",
        f"To be wrong with any of the {len(rows)} in at most {LEVEL:.0%} of cases, the smallest chance must be below "
        f"{LEVEL} / {len(rows)} = {LEVEL / len(rows):.4f} (Bonferroni), the next below {LEVEL} / {len(rows) - 1}, and "
        "so on (Holm). Of the decided claims:",
        "",
        "| claim | verdict | chance | bound | outlasts Holm |",
        "|---|---|--:|--:|---|",
    ]
    outlasts = True
    for place, (chance, study, row) in enumerate(decided):
        bound = LEVEL / (len(rows) - place)
        outlasts = outlasts and chance <= bound
        told = f"| {study}: {row['claim']} | {row['verdict']} | {chance:.2g} | {bound:.2g} |"
        lines.append(f"{told} {'yes' if outlasts else 'no'} |")
    return "\n".join(lines) + "\n"


def leaves(row: Json) -> list[Json]:
    """The comparisons that a claim rests on in the end."""
    return [leaf for part in row["parts"] for leaf in leaves(part)] if row["parts"] else [row]


if __name__ == "__main__":
    main()
