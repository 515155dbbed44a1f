"""A grid may be filled part by part, and its report is about all of it."""

import json
import shutil
import threading
from contextlib import suppress

import pytest

from supple_lab.cli import supple
from supple_lab.files import StorageError
from supple_lab.paper import manifest
from supple_lab.paper.continual import ContinualFull
from supple_lab.paper.manifest import add_to_manifest, path_of, read_manifest
from supple_lab.paper.quickstart import Quickstart
from supple_lab.paper.study import StudyOptions

pytestmark = pytest.mark.usefixtures("no_picture_files")


def run_quickstart(out, *options):
    return supple(
        ["run", "quickstart", "--scale", "smoke", "--engine", "inline", "--quiet", "--out", str(out), *options]
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder that two orders have filled."""
    out = tmp_path_factory.mktemp("parts")
    for methods in (["redo"], ["vanilla"]):
        assert run_quickstart(out, "--methods", *methods) == 0
    return out


@pytest.fixture
def out(made, tmp_path):
    return shutil.copytree(made, tmp_path / "out")


def test_a_report_is_about_all_that_was_ordered_and_misses_nothing_else(made):
    written = json.loads((made / "report" / "quickstart.json").read_bytes())
    assert {run["method"] for run in written["runs"] if run["status"] == "done"} == {"redo", "vanilla"}
    assert written["command"].count(" && ") <= 1
    assert written["missing"] == []
    assert {claim["verdict"] for claim in written["claims"]} <= {"not decided", "not run"}


def test_another_scale_is_another_grid(tmp_path):
    study = Quickstart()
    first, second = StudyOptions(scale="smoke", methods=("redo",)), StudyOptions(scale="quick")
    for order, replaced in ((first, None), (second, first.whole()), (second, None)):
        given = {"order": order, "command": order.scale, "specs": study.specs(order)}
        assert add_to_manifest(tmp_path, study.name, **given) == replaced
    written = read_manifest(tmp_path, study.name)
    assert (written.order, written.commands) == (StudyOptions(scale="quick"), ("quick",))


def test_more_seeds_than_the_studys_own_are_reported_and_fewer_leave_some_missing():
    study = Quickstart()
    assert len(study.specs(StudyOptions(scale="quick", num_seeds=5).whole())) == 3 * 5
    assert len(study.specs(StudyOptions(scale="quick", num_seeds=1).whole())) == 3 * 3


def test_order_of_another_version_is_told_and_not_a_traceback(out, capsys):
    path = path_of(out, "quickstart")
    content = json.loads(path.read_bytes())
    content["specs"][0]["method"]["gone"] = 1
    path.write_text(json.dumps(content))
    assert supple(["report", "quickstart", "--out", str(out)]) == 0
    assert "1 run was ordered by another version" in (out / "report" / "index.html").read_text()
    content["order"]["gone"] = 1
    path.write_text(json.dumps(content))
    assert supple(["report", "quickstart", "--out", str(out)]) == 2
    assert "of another version" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"scale": "huge"}, "smoke, quick, paper, full; got 'huge'"),
        ({"precision": "half"}, "fp32, tf32, bf16; got 'half'"),
        ([], "order must be a StudyOptions"),
        (7, "got 7"),
    ],
)
def test_an_order_that_no_study_knows_is_told_and_not_a_traceback(tmp_path, order, words):
    study = Quickstart()
    add_to_manifest(tmp_path, study.name, order=StudyOptions(), command="", specs=study.specs(StudyOptions()))
    path = path_of(tmp_path, study.name)
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "order": order}))
    with pytest.raises(StorageError, match=words):
        read_manifest(tmp_path, study.name)


def test_runs_without_an_order_are_not_said_to_be_gone(out, capsys):
    path_of(out, "quickstart").unlink()
    for asked in (["quickstart", "--out", str(out)], [str(out)]):
        assert supple(["report", *asked]) == 2
        told = capsys.readouterr().err
        assert "no runs" not in told
        assert "those that are done are not run again" in told


def test_what_two_drivers_ask_for_at_once_is_all_noted(tmp_path, monkeypatch):
    """Each reads the file and waits a moment for the other to read it, too, before it goes on."""
    both_have_read = threading.Barrier(2)
    original = manifest.read_manifest

    def read_and_wait(*arguments):
        try:
            return original(*arguments)
        finally:
            with suppress(threading.BrokenBarrierError):
                both_have_read.wait(0.3)

    def drive(method):
        order = StudyOptions(scale="smoke", methods=(method,))
        add_to_manifest(tmp_path, "quickstart", order=order, command=method, specs=Quickstart().specs(order))

    monkeypatch.setattr(manifest, "read_manifest", read_and_wait)
    drivers = [threading.Thread(target=drive, args=(method,)) for method in ("redo", "vanilla")]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert set(original(tmp_path, "quickstart").commands) == {"redo", "vanilla"}


@pytest.mark.parametrize("content", ["{", "[" * 100_000], ids=["torn", "nested beyond all bounds"])
def test_damaged_manifest_says_how_to_write_it_anew(tmp_path, content):
    (tmp_path / "studies").mkdir()
    path_of(tmp_path, "quickstart").write_text(content)
    with pytest.raises(StorageError, match="at the scale of the runs there: supple run quickstart --scale"):
        read_manifest(tmp_path, "quickstart")


def test_leader_cannot_hold_while_rivals_were_not_even_ordered():
    study, order = ContinualFull(), StudyOptions(scale="paper", methods=("aid", "vanilla"))
    names = {spec.method.name for spec in study.specs(order.whole())}
    assert {"full_reset", "dash", "shrink_perturb"} <= names
