"""What holds for every generalizability study: its runs fit together, and it draws whatever there is."""

import pytest
from made_runs import claims, made, verdicts, wavering

from supple_lab.paper.class_incremental import ClassIncremental
from supple_lab.paper.continual import ContinualFull, ContinualLimited
from supple_lab.paper.generalizability_gap import GeneralizabilityGap
from supple_lab.paper.sensitivity import Sensitivity
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.supervised import Supervised
from supple_lab.paper.warm_start import WarmStart
from supple_lab.report.study_json import ReportInfo
from supple_lab.report.write import write_report
from supple_lab.results.results import Results
from supple_lab.run.check import check_suitable

STUDIES = (
    ClassIncremental(),
    ContinualFull(),
    ContinualLimited(),
    GeneralizabilityGap(),
    Sensitivity(),
    Supervised(),
    WarmStart(),
)
every_study = pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)


def in_pieces(spec):
    """A third of the runs done, a third diverged in their second stage, a third not begun."""
    kind = int(spec.run_id, 16) % 3
    if kind == 0:
        return None
    num_stages = spec.problem.scenario.num_stages
    return wavering(spec, 0.5) if kind == 1 else [*[0.4] * min(1, num_stages - 1), float("nan")] + [0.4] * num_stages


@every_study
@pytest.mark.parametrize("scale", ["smoke", "quick"])
def test_parts_of_every_run_go_together(study, scale):
    for spec in study.specs(StudyOptions(scale=scale)):
        check_suitable(spec, device="cpu")


def aid_far_ahead(spec):
    """AID far above all others, reset or not; networks that are reset in between, and the others fall to half."""
    method = getattr(spec.method, "built_with", None) or spec.method
    if method.name == "aid" or spec.method.name == "full_reset":
        return wavering(spec, 0.9 if method.name == "aid" else 0.6)
    num_stages = spec.problem.scenario.num_stages
    return [0.4 - 0.2 * stage / num_stages + 0.001 * spec.seed for stage in range(num_stages)]


@pytest.mark.parametrize("study", STUDIES[:-1], ids=lambda study: study.name)  # warm_start is of one network
def test_a_network_that_quick_scale_leaves_out_is_not_run_and_lets_no_claim_over_all_of_them_hold(study):
    order = StudyOptions(scale="quick")
    at = {scale: {one.case for one in study.conditions(StudyOptions(scale=scale))} for scale in ("quick", "paper")}
    missing = at["paper"] - at["quick"]
    told = {"cnn": "CNN on CIFAR-10", "resnet18": "ResNet-18 on CIFAR-100", "vgg16": "VGG-16 on TinyImageNet"}
    rows = claims(study, order, aid_far_ahead)
    assert missing
    for row in rows:
        leaves = [leaf for part in row.parts for leaf in (part.parts or (part,))]
        absent = [leaf for leaf in leaves if any(told[case] in leaf.name for case in missing)]
        assert {leaf.verdict for leaf in absent} <= {"not run"}
    assert not [row.claim for row in rows if row.verdict == "holds"]


@every_study
def test_quick_scale_adds_no_method_and_smoke_scale_no_data(study):
    methods = {
        scale: {spec.method.name for spec in study.specs(StudyOptions(scale=scale))} for scale in ("quick", "paper")
    }
    assert methods["quick"] <= methods["paper"]
    assert {spec.problem.dataset.of.name for spec in study.specs(StudyOptions(scale="smoke"))} == {"digits"}


@every_study
def test_every_scale_tells_how_it_differs_from_the_paper(study):
    notes = {scale: study.draw(Results(()), StudyOptions(scale=scale)).notes for scale in ("smoke", "quick", "paper")}
    assert notes["smoke"][0].startswith("Smoke scale")
    assert notes["quick"][0].startswith("Quick scale, not the paper's protocol")
    assert notes["paper"][0].startswith("Where the paper is silent")
    by_looking = "chosen by looking at test accuracies on these very digits"
    assert (by_looking in " ".join(notes["quick"]), by_looking in " ".join(notes["paper"])) == (True, False)


@every_study
def test_draws_and_writes_what_there_is_of_a_broken_sweep_or_search(study, tmp_path):
    order = StudyOptions(scale="smoke", num_seeds=2)
    searched = StudyOptions(scale="smoke", num_seeds=2, search=True)
    assert "holds" not in verdicts(study, searched, in_pieces)
    results = made(study.specs(order), in_pieces)
    drawing = study.draw(results, order)
    assert "holds" not in {row.verdict for row in drawing.claims}
    about = ReportInfo(
        study=study.name, title=study.title, question=study.question, scale=order.scale, command="supple"
    )
    write_report(tmp_path, about, results=results, report=drawing)


@every_study
def test_draws_methods_that_the_study_does_not_have(study):
    order = StudyOptions(scale="smoke", methods=("tanh", "redo"))
    assert set(verdicts(study, order, lambda spec: 0.5)) <= {"not run", "not decided"}
