"""Files that are not what the run wrote are set aside and computed again; a disk that fails harms nothing."""

import errno
import io
import os
import shutil
import signal

import pytest
import torch

from small_runs import small_spec
from supple_lab.cli import supple
from supple_lab.files import StorageError
from supple_lab.results.load import load_results
from supple_lab.run import step
from supple_lab.run.recorder import CheckpointInterval
from supple_lab.run.run import execute
from supple_lab.store.checkpoint import checkpoint_files, read_checkpoint, write_checkpoint
from supple_lab.store.store import Store
from supple_lab.sweep.sweep import unfinished

SPECS = [small_spec(), small_spec(seed=1)]
LINE = (
    "--scenario.num-stages 3 --scenario.epochs 2 --scenario.num-images 128 --scenario.batch-size 32 "
    "--model.width 16 --model.num-hidden 2 --optimizer.learning-rate 2e-3 --quiet --out"
)  # of the first
FILES = ("spec.json", "status.json", "records.jsonl", "epochs.jsonl")
LOGS = FILES[2:]
SIXTY_FOUR_GIB = 2**36
AT_EVERY_STEP = CheckpointInterval(seconds=0.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Both runs, done; never changed."""
    store = Store.create(tmp_path_factory.mktemp("whole"))
    for spec in SPECS:
        assert execute(spec, store) == "done"
    return store


@pytest.fixture
def store(tmp_path, whole):
    shutil.copytree(whole.root, tmp_path / "out")
    return Store.create(tmp_path / "out")


@pytest.fixture(autouse=True)
def _no_hang():
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(120)
    yield
    signal.alarm(0)


def path_of(store, spec, name):
    return store.folder(spec).path / name


def logs(store, spec=SPECS[0]):
    return [path_of(store, spec, name).read_bytes() for name in LOGS]


def set_aside(store, spec=SPECS[0]):
    return sorted(path.name for path in store.folder(spec).path.iterdir() if ".damaged" in path.name)


def interrupted(root, spec, monkeypatch, *, at_step):
    original, steps_left = step.training_step, iter(range(at_step))

    def limited(*arguments):
        if next(steps_left, None) is None:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(step, "training_step", limited)
    store = Store.create(root)
    with pytest.raises(KeyboardInterrupt):
        execute(spec, store, interval=AT_EVERY_STEP)
    monkeypatch.setattr(step, "training_step", original)
    return store


@pytest.mark.parametrize("names", [FILES[1:], FILES[1:2], LOGS, FILES[2:3], FILES], ids="+".join)
def test_another_runs_files_are_not_believed_and_the_run_is_computed_again(store, whole, names):
    for name in names:
        shutil.copy(path_of(store, SPECS[1], name), path_of(store, SPECS[0], name))
    assert logs(store) != logs(whole) or names == FILES[1:2]
    loaded = load_results(store, SPECS)
    assert [run.state for run in loaded.runs] == ["damaged", "done"]
    assert len(loaded.final("test_accuracy")) == 1
    assert unfinished(store, SPECS, retry_failed=False) == SPECS[:1]
    assert execute(SPECS[0], store) == "done"
    assert logs(store) == logs(whole)
    assert set_aside(store)


def test_train_computes_again_what_another_run_wrote_and_says_so(store, whole, capsys):
    for name in FILES[1:]:
        shutil.copy(path_of(store, SPECS[1], name), path_of(store, SPECS[0], name))
    assert supple(["train", *LINE.split(), str(store.root)]) == 0
    assert logs(store) == logs(whole)
    assert "status.json.damaged was set aside as damaged" in capsys.readouterr().err


def test_swapped_checkpoints_are_set_aside_and_both_runs_have_their_own_numbers(tmp_path, whole, monkeypatch):
    for spec in SPECS:
        store = interrupted(tmp_path, spec, monkeypatch, at_step=3)  # in the first epoch: no records yet
    folders = [store.folder(spec).path for spec in SPECS]
    for one, other in zip(*(checkpoint_files(folder) for folder in folders), strict=True):
        one.rename(tmp_path / "aside")
        other.rename(one)
        (tmp_path / "aside").rename(other)
    for spec in SPECS:
        assert execute(spec, store) == "done"
        assert logs(store, spec) == logs(whole, spec)
        assert len(set_aside(store, spec)) == 2


def emptied(folder, path):
    write_checkpoint(folder, {"device": "cpu"})


def no_dict(folder, path):
    write_checkpoint(folder, [1, 2])


def of_another_shape(folder, path):
    content = read_checkpoint(path, torch.device("cpu"))
    content["model"] = {name: value[..., :1] for name, value in content["model"].items()}
    write_checkpoint(folder, content)


def without_cursor(folder, path):
    content = read_checkpoint(path, torch.device("cpu"))
    write_checkpoint(folder, content | {"cursor": {"no": 1}})


def unloadable(folder, path):
    save, torch.save = torch.save, lambda _, buffer: buffer.write(b"PK\x03\x04 no archive")
    try:
        write_checkpoint(folder, {})
    finally:
        torch.save = save


@pytest.mark.parametrize("num_good", [0, 1])
@pytest.mark.parametrize("make", [emptied, no_dict, of_another_shape, without_cursor, unloadable])
def test_unusable_checkpoint_is_passed_over_for_the_one_before_or_the_start(
    tmp_path, whole, monkeypatch, make, num_good
):
    store = interrupted(tmp_path, SPECS[0], monkeypatch, at_step=20)
    folder = store.folder(SPECS[0]).path
    make(folder, checkpoint_files(folder)[-1])
    for old in checkpoint_files(folder)[: -1 - num_good]:
        old.unlink()
    steps, original = [], step.training_step
    monkeypatch.setattr(step, "training_step", lambda *a: steps.append(1) or original(*a))
    assert execute(SPECS[0], store) == "done"
    assert logs(store) == logs(whole)
    assert len(steps) == (4 if num_good else 24)
    assert len(set_aside(store)) == 1


def as_folder(path):
    path.mkdir()
    (path / "something").write_text("in it")


def as_pipe(path):
    os.mkfifo(path)


def as_link_to_itself(path):
    path.symlink_to(path)


def as_link_to_nothing(path):
    path.symlink_to(path.with_name("nothing"))


def as_sparse_file(path):
    path.touch()
    os.truncate(path, SIXTY_FOUR_GIB)


STRANGE = [as_folder, as_pipe, as_link_to_itself, as_link_to_nothing, as_sparse_file]


@pytest.mark.parametrize("make", [make for make in STRANGE if make is not as_link_to_nothing])
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_of_a_run_is_set_aside_and_the_run_computed_again(store, whole, capsys, name, make):
    path = path_of(store, SPECS[0], name)
    path.unlink()
    make(path)
    assert supple(["list", "runs", "--out", str(store.root)]) == 0
    states = [run.state for run in load_results(store, SPECS).runs]
    assert states == ["done" if name == "epochs.jsonl" else "damaged", "done"]
    assert unfinished(store, SPECS, retry_failed=False) == SPECS[:1]
    assert supple(["train", *LINE.split(), str(store.root)]) == 0
    assert logs(store) == logs(whole)
    assert set_aside(store) == [f"{name}.damaged"]
    assert f"{name}.damaged was set aside as damaged" in capsys.readouterr().err


@pytest.mark.parametrize("make", STRANGE)
@pytest.mark.parametrize("name", ["lock", "lease-000007", "checkpoint-000009.pt", "checkpoint-000001.pt"])
def test_what_is_no_lock_or_checkpoint_blocks_no_run(store, whole, monkeypatch, name, make):
    status = path_of(store, SPECS[0], "status.json")
    status.unlink()
    make(path_of(store, SPECS[0], name))
    assert execute(SPECS[0], store, interval=CheckpointInterval(seconds=1e9, stages=1)) == "done"
    assert logs(store) == logs(whole)


def test_second_damaged_file_does_not_replace_the_first(store):
    for content in (b"first", b"second"):
        path_of(store, SPECS[0], "status.json").write_bytes(content)
        assert execute(SPECS[0], store) == "done"
    assert [path_of(store, SPECS[0], name).read_bytes() for name in set_aside(store)] == [b"first", b"second"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.ESTALE, errno.EIO])
@pytest.mark.parametrize("name", [*FILES, "checkpoint-000008.pt"])
def test_disk_that_refuses_stops_the_run_with_a_sentence_and_harms_nothing(tmp_path, monkeypatch, name, number):
    store = interrupted(tmp_path, SPECS[0], monkeypatch, at_step=8)
    folder = store.folder(SPECS[0]).path
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert name in before
    original = os.open

    def refusing(path, *arguments, **options):
        if os.fspath(path) == str(folder / name):
            raise OSError(number, os.strerror(number))
        return original(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(StorageError, match=f"cannot read .*{name}: {os.strerror(number)}. It was left as it is"):
        execute(SPECS[0], store)
    monkeypatch.undo()
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {own: content for own, content in after.items() if own != "status.json"} == {
        own: content for own, content in before.items() if own != "status.json"
    }
    assert execute(SPECS[0], store) == "done"


def test_status_with_an_integer_that_no_database_holds_is_listed(store, capsys):
    path = path_of(store, SPECS[0], "status.json")
    path.write_text(path.read_text().replace('"accuracy": ', f'"accuracy": {2**63}, "was": '))
    assert supple(["list", "runs", "--out", str(store.root)]) == 0
    assert "2 done" in capsys.readouterr().err


def test_checkpoint_of_format_1_is_void_and_its_run_starts_over(tmp_path, whole, monkeypatch):
    store = interrupted(tmp_path, SPECS[0], monkeypatch, at_step=20)
    folder = store.folder(SPECS[0]).path
    for path in checkpoint_files(folder):
        buffer = io.BytesIO()
        torch.save(read_checkpoint(path, torch.device("cpu")), buffer)
        path.write_bytes(b"supple checkpoint 1\n" + b"\0" * 32 + buffer.getvalue())
    assert execute(SPECS[0], store) == "done"
    assert logs(store) == logs(whole)
    assert len(set_aside(store)) == 2


def test_a_lock_that_cannot_be_read_keeps_no_other_run_from_being_listed(tmp_path, monkeypatch):
    store = Store.create(tmp_path)
    for spec in SPECS:
        store.folder(spec).create(spec)
        store.folder(spec).write_status("running")
    real, away = os.open, store.folder(SPECS[0]).path / "lock"
    away.touch()

    def refuse(path, *arguments, **options):
        if str(path) == str(away):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    assert sorted(run.state for run in store.runs()) == ["interrupted", "waiting"]
