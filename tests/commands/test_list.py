"""supple list runs: which runs there are, how they stand, and what is wrong with them."""

import pytest

from small_runs import small_spec
from supple.methods import UseAID
from supple_lab.cli import supple
from supple_lab.run.run import execute
from supple_lab.store.store import Store

SPECS = [small_spec(UseAID()), small_spec(seed=3), small_spec(num_images=5000)]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    store = Store.create(tmp_path_factory.mktemp("out"))
    execute(SPECS[0], store)
    store.folder(SPECS[1]).create(SPECS[1])
    store.folder(SPECS[1]).write_status("running", progress=0.2, seconds=300.0)
    execute(SPECS[2], store)
    return store.root


def listed(capsys, out, *filters):
    assert supple(["list", "runs", "--out", str(out), *filters]) == 0
    told = capsys.readouterr()
    return {spec.run_id for spec in SPECS if spec.run_id in told.out}, told


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ([], [0, 1, 2]),
        (["--method", "aid"], [0]),
        (["--method", "aid", "vanilla", "--state", "done", "interrupted"], [0, 1]),
        (["--state", "failed"], [2]),
        (["--method", "redo"], []),
    ],
)
def test_filters_choose_the_runs(capsys, out, filters, wanted):
    assert listed(capsys, out, *filters)[0] == {SPECS[index].run_id for index in wanted}


def test_state_progress_time_left_and_reason_are_told(capsys, out):
    _, told = listed(capsys, out)
    lines = {spec.run_id: next(line for line in told.out.splitlines() if spec.run_id in line) for spec in SPECS}
    assert "done" in lines[SPECS[0].run_id]
    assert "20%" in lines[SPECS[1].run_id]
    assert "20 min" in lines[SPECS[1].run_id]  # 300 seconds for a fifth
    assert "RandomLabel.num_images" in lines[SPECS[2].run_id]
    assert told.err.startswith("3 runs: 1 ")


@pytest.mark.parametrize("name", ["method", "state"])
def test_name_that_is_none_is_answered_with_those_there_are(capsys, out, name):
    assert supple(["list", "runs", "--out", str(out), f"--{name}", "nosuch"]) == 2
    assert f"no {name} named 'nosuch'" in capsys.readouterr().err


@pytest.mark.parametrize("reason", ["no images in [/data/tiny] (train)", "[enforce fail at alloc_cpu.cpp:117] :x:"])
def test_reason_is_shown_as_it_is(capsys, tmp_path, reason):
    folder = Store.create(tmp_path).folder(SPECS[0])
    folder.create(SPECS[0])
    folder.write_status("failed", reason=reason)
    told = listed(capsys, tmp_path)[1]
    assert reason in told.out
    assert told.err == "1 run: 1 failed\n"


def test_folder_whose_runs_were_removed_is_an_error(capsys, tmp_path):
    (Store.create(tmp_path).root / "runs").rmdir()
    assert supple(["list", "runs", "--out", str(tmp_path)]) == 2
    assert f"supple: {tmp_path} holds no runs. Make some with `supple run STUDY" in capsys.readouterr().err


def test_damaged_spec_is_noted_and_the_others_are_listed(capsys, tmp_path):
    store = Store.create(tmp_path)
    for spec in SPECS:
        store.folder(spec).create(spec)
    (store.folder(SPECS[0]).path / "spec.json").write_bytes(b"\x00")
    assert supple(["list", "runs", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert all(spec.run_id in told.out for spec in SPECS)
    assert f"{SPECS[0].run_id}/spec.json is damaged" in told.err
