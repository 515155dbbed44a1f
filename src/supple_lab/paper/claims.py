"""What the paper claims, typed once: its words in ours, the sentence to be decided, and the rule that decides it.

The rules are ours. Each takes a number per seed; "above" and "below" mean that the whole 95% interval of its mean lies
there (report/verdict.py). A rule over several conditions (optimizers, networks, games) holds when it holds in each, and
fails when it fails in one. "In most" counts: it holds when more than half of the conditions hold, and fails when half
or more fail. "In one" is the mirror of "in each". A verdict that some of the conditions are enough for is decided the
more strictly, the more conditions there are, so that looking often does not make one (groups.py). Else it is not
decided; with nothing to decide it from, not run.

A precondition that does not hold leaves a claim not decided: without a loss nothing can be done against one. A check is
no claim: nothing is measured in it, only an error of ours can break it.

A method keeps its plasticity when the mean over its last tenth of the stages is less than 0.02 below a fresh vanilla
network of the same seed, optimizer and learning rate, and loses it when it is more than 0.05 below; between the two,
and where the fresh network does not learn (accuracy above 0.15, chance and five points), neither is decided. The fresh
network is a full reset run, or the first stage of the vanilla run where there is none (fresh.py). The paper does not
say which training accuracy it shows: "by both accuracies" means online and at the end of a stage, and a claim holds or
fails only where both agree. "All eight": both MNIST problems, Adam 1e-3 and 1e-4, SGD 3e-2 and 3e-3. "The three": the
CNN on CIFAR-10, ResNet-18 on CIFAR-100, VGG-16 on TinyImageNet; at other scales than the paper's, what stands in for
them. What a scale leaves out counts as not run. A threshold that is a number of the paper decides at paper scale alone.
"""

from dataclasses import replace

from supple_lab.paper.claim import Claim
from supple_lab.paper.claims_section_3_4 import WHY
from supple_lab.paper.claims_section_5_1 import CONTINUAL_LEARNING
from supple_lab.paper.claims_section_5_2 import OTHER_LEARNING
from supple_lab.paper.study import StudyOptions
from supple_lab.registry import UnknownName, no_such
from supple_lab.report.figure import ClaimRow, Table
from supple_lab.report.verdict import Words

STUDIES = (
    "trainability",
    "trainability_metrics",
    "dropout_fails",
    "preactivation_shift",
    "warm_start",
    "continual_full",
    "continual_limited",
    "class_incremental",
    "generalizability_gap",
    "sensitivity",
    "supervised",
    "atari",
    "theory",
)

CLAIMS = (*WHY, *CONTINUAL_LEARNING, *OTHER_LEARNING)

# Final test accuracy and its standard deviation after 200 epochs (section 5.3, Table 1), by method and network.
SUPERVISED_TABLE = {
    "vanilla": {"cnn": (0.660, 0.0058), "resnet18": (0.581, 0.0029), "vgg16": (0.430, 0.0009)},
    "l2": {"cnn": (0.742, 0.0038), "resnet18": (0.574, 0.0017), "vgg16": (0.417, 0.0042)},
    "dropout": {"cnn": (0.733, 0.0037), "resnet18": (0.651, 0.0028), "vgg16": (0.466, 0.0040)},
    "aid": {"cnn": (0.748, 0.0021), "resnet18": (0.690, 0.0014), "vgg16": (0.519, 0.0043)},
}


def claims_of(study: str) -> tuple[Claim, ...]:
    """The claims that a study decides, in the paper's order."""
    if study not in STUDIES:
        raise UnknownName(no_such("study with claims", study, STUDIES))
    return tuple(claim for claim in CLAIMS if claim.study == study)


def claim_named(key: str) -> Claim:
    """The claim of that key, or UnknownName."""
    by_key = {claim.key: claim for claim in CLAIMS}
    if key not in by_key:
        raise UnknownName(no_such("claim", key, by_key))
    return by_key[key]


PAPERS_NUMBER = "not decided: the paper's number belongs to the paper's scale"


def words_of(key: str) -> Words:
    """What is said of a claim besides the numbers, to be handed to report/verdict.py."""
    claim = claim_named(key)
    return Words(claim=claim.claim, paper=claim.paper, section=claim.section, study=claim.study, rule=claim.test)


def at_paper_scale(row: ClaimRow, order: StudyOptions) -> ClaimRow:
    """The row of a claim whose threshold is a number of the paper: at other scales it says what was measured alone."""
    if order.scale == "paper" or row.verdict == "not run":
        return row
    return replace(row, verdict="not decided", measured=f"{row.measured}; {PAPERS_NUMBER}", chance=1.0)


def beside_the_paper(table: Table, order: StudyOptions) -> Table:
    """The table without the paper's numbers at other scales than its own: they are of its networks and data."""
    if order.scale == "paper":
        return table
    ours = [place for place, name in enumerate(table.header) if not name.endswith("paper")]
    return table.part(rows=range(len(table.rows)), columns=ours)
