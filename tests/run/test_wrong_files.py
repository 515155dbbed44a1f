"""Files that are not what the run wrote are set aside and computed again; a disk that fails harms nothing."""

import errno
import io
import os
import shutil
import signal

import pytest
import torch

from small_runs import SMALL_LINE, counted_steps, interrupted, logs_of, small_spec
from supple.methods import Vanilla
from supple_lab.cli import supple
from supple_lab.commands.messages import print_damage
from supple_lab.files import StorageError
from supple_lab.results.load import load_results
from supple_lab.run.run import execute
from supple_lab.store.checkpoint import checkpoint_files, read_checkpoint, write_checkpoint
from supple_lab.store.reading import read_run
from supple_lab.store.store import Store
from supple_lab.sweep.local import Inline
from supple_lab.sweep.sweep import execute_all, unfinished

SPECS = [small_spec(), small_spec(seed=1)]
FILES = ("spec.json", "status.json", "records.jsonl", "epochs.jsonl")
LOGS = FILES[2:]
SIXTY_FOUR_GIB = 2**36
CPU = torch.device("cpu")


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


def set_aside(store, spec=SPECS[0]):
    return [path.name for path in store.folder(spec).set_aside()]


def train(store):
    return supple(["train", *SMALL_LINE.split(), str(store.root)])


@pytest.mark.parametrize("names", [FILES[1:], FILES[1:2], LOGS, FILES[2:3], FILES], ids="+".join)
def test_another_runs_files_are_not_believed_and_the_run_is_computed_again(store, whole, names):
    for name in names:
        shutil.copy(path_of(store, SPECS[1], name), path_of(store, SPECS[0], name))
    assert logs_of(store, SPECS[0]) != logs_of(whole, SPECS[0]) or names == FILES[1:2]
    loaded = load_results(store, SPECS)
    assert [run.state for run in loaded.runs] == ["damaged", "done"]
    assert len(loaded.final("test_accuracy")) == 1
    assert unfinished(store, SPECS, retry_failed=False) == SPECS[:1]
    assert execute(SPECS[0], store) == "done"
    assert logs_of(store, SPECS[0]) == logs_of(whole, SPECS[0])
    assert set_aside(store)


def one_digit(content):
    place = next(place for place in range(60, len(content)) if content[place : place + 1].isdigit())
    return content[:place] + str(9 - int(content[place : place + 1])).encode() + content[place + 1 :]


DAMAGES = {
    "cut": lambda content: content[: len(content) // 2],
    "garbled": lambda content: content[:40] + b"\x00garbage\xff" + content[50:],
    "nested": lambda content: b"[" * 100_000 + b"\n",  # deeper than Python reads
    "empty": lambda content: b"",
    "other shape": lambda content: b"[1]\n" * 3,
    "one digit": one_digit,
}


def contents(store, spec):
    return {path.name: path.read_bytes() for path in store.folder(spec).path.iterdir()}


def sweep_again(store):
    assert execute_all(unfinished(store, SPECS, retry_failed=False), Inline(store, device="cpu", jobs=1)) == []


@pytest.mark.parametrize(
    ("name", "damage"),
    [(name, damage) for name in LOGS for damage in DAMAGES]
    + [(name, damage) for name in ("status.json", "spec.json") for damage in list(DAMAGES)[:3]],
)
def test_damaged_file_is_set_aside_and_the_run_redone(store, capsys, name, damage):
    before, other = contents(store, SPECS[0]), contents(store, SPECS[1])
    damaged = DAMAGES[damage](before[name])
    path_of(store, SPECS[0], name).write_bytes(damaged)
    assert store.folder(SPECS[0]).state() == ("waiting" if name == "status.json" else "interrupted")
    assert unfinished(store, SPECS, retry_failed=False) == SPECS[:1]
    sweep_again(store)
    now = contents(store, SPECS[0])
    assert now[f"{name}.damaged"] == damaged
    assert all(now[own] == before[own] for own in (*LOGS, "spec.json"))
    assert contents(store, SPECS[1]) == other
    print_damage(store, SPECS)
    assert f"{name}.damaged was set aside as damaged" in capsys.readouterr().err


def test_missing_spec_is_written_again(store):
    path_of(store, SPECS[0], "spec.json").unlink()
    assert unfinished(store, SPECS, retry_failed=False) == SPECS[:1]
    assert execute(SPECS[0], store) == "done"
    assert read_run(store.folder(SPECS[0]).path).spec == SPECS[0].to_dict()


@pytest.fixture
def diverged(tmp_path, monkeypatch):
    """A store with a run that has two records, and diverged in its third stage."""

    @torch.no_grad()
    def begin_stage(self, learner, state, data, stage):
        if stage == 2:
            next(learner.model.parameters()).fill_(torch.nan)

    monkeypatch.setattr(Vanilla, "begin_stage", begin_stage)
    store = Store.create(tmp_path)
    assert [execute(spec, store) for spec in SPECS] == ["diverged"] * 2
    assert len(store.folder(SPECS[0]).stage_log.read()) == 2
    return store


@pytest.mark.parametrize("again", [sweep_again, train])
@pytest.mark.parametrize("name", LOGS)
def test_records_of_a_diverged_run_are_results_too(diverged, again, name):
    before = contents(diverged, SPECS[0])
    again(diverged)
    assert contents(diverged, SPECS[0]) == before  # whole, it is left as it is
    damaged = before[name].replace(b"0.", b"0.9", 1)  # still a record, with another number
    path_of(diverged, SPECS[0], name).write_bytes(damaged)
    assert diverged.folder(SPECS[0]).state() == "interrupted"
    again(diverged)
    now = contents(diverged, SPECS[0])
    assert diverged.folder(SPECS[0]).state() == "diverged"
    assert now[f"{name}.damaged"] == damaged
    assert all(now[log] == before[log] for log in LOGS)


def test_swapped_checkpoints_are_set_aside_and_both_runs_have_their_own_numbers(tmp_path, whole):
    for spec in SPECS:
        store = interrupted(tmp_path, spec, at_step=3)  # in the first epoch: no records yet
    folders = [store.folder(spec).path for spec in SPECS]
    for one, other in zip(*(checkpoint_files(folder) for folder in folders), strict=True):
        one.rename(tmp_path / "aside")
        other.rename(one)
        (tmp_path / "aside").rename(other)
    for spec in SPECS:
        assert execute(spec, store) == "done"
        assert logs_of(store, spec) == logs_of(whole, spec)
        assert len(set_aside(store, spec)) == 2


NO_ARCHIVE = b"PK\x03\x04 no archive"
UNUSABLE = {
    "emptied": lambda content: {"device": "cpu"},
    "no dict": lambda content: [1, 2],
    "of another shape": lambda content: content | {"model": {k: v[..., :1] for k, v in content["model"].items()}},
    "without a cursor": lambda content: content | {"cursor": {"no": 1}},
    "unloadable": lambda content: NO_ARCHIVE,
}


@pytest.mark.parametrize("num_good", [0, 1])
@pytest.mark.parametrize("kind", UNUSABLE)
def test_unusable_checkpoint_is_passed_over_for_the_one_before_or_the_start(
    tmp_path, whole, monkeypatch, kind, num_good
):
    store = interrupted(tmp_path, SPECS[0], at_step=20)
    folder = store.folder(SPECS[0]).path
    content = UNUSABLE[kind](read_checkpoint(checkpoint_files(folder)[-1], CPU))
    with monkeypatch.context() as patch:
        if content is NO_ARCHIVE:
            patch.setattr(torch, "save", lambda content, buffer: buffer.write(content))
        write_checkpoint(folder, content)
    for old in checkpoint_files(folder)[: -1 - num_good]:
        old.unlink()
    steps = counted_steps(monkeypatch)
    assert execute(SPECS[0], store) == "done"
    assert logs_of(store, SPECS[0]) == logs_of(whole, SPECS[0])
    assert len(steps) == (4 if num_good else 24)
    assert len(set_aside(store)) == 1


STRANGE = {
    "folder": lambda path: (path / "with something in it").mkdir(parents=True),
    "pipe": os.mkfifo,
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
    "sparse file": lambda path: path.touch() or os.truncate(path, SIXTY_FOUR_GIB),
}


@pytest.mark.parametrize("kind", [kind for kind in STRANGE if kind != "link to nothing"])
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_of_a_run_is_set_aside_and_the_run_computed_again(store, whole, capsys, name, kind):
    path = path_of(store, SPECS[0], name)
    path.unlink()
    STRANGE[kind](path)
    assert supple(["list", "runs", "--out", str(store.root)]) == 0
    states = [run.state for run in load_results(store, SPECS).runs]
    assert states == ["done" if name == "epochs.jsonl" else "damaged", "done"]
    assert unfinished(store, SPECS, retry_failed=False) == SPECS[:1]
    assert train(store) == 0
    assert logs_of(store, SPECS[0]) == logs_of(whole, SPECS[0])
    assert set_aside(store) == [f"{name}.damaged"]
    assert f"{name}.damaged was set aside as damaged" in capsys.readouterr().err


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("name", ["lock", "lease-000007", "checkpoint-000009.pt", "checkpoint-000001.pt"])
def test_what_is_no_lock_or_checkpoint_blocks_no_run(store, whole, name, kind):
    status = path_of(store, SPECS[0], "status.json")
    status.unlink()
    STRANGE[kind](path_of(store, SPECS[0], name))
    assert execute(SPECS[0], store, checkpoint_seconds=0.0) == "done"
    assert logs_of(store, SPECS[0]) == logs_of(whole, SPECS[0])


def test_second_damaged_file_does_not_replace_the_first(store):
    for content in (b"first", b"second"):
        path_of(store, SPECS[0], "status.json").write_bytes(content)
        assert execute(SPECS[0], store) == "done"
    assert [path_of(store, SPECS[0], name).read_bytes() for name in set_aside(store)] == [b"first", b"second"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.ESTALE, errno.EIO])
@pytest.mark.parametrize("name", [*FILES, "checkpoint-000008.pt"])
def test_disk_that_refuses_stops_the_run_with_a_sentence_and_harms_nothing(tmp_path, monkeypatch, name, number):
    store = interrupted(tmp_path, SPECS[0], at_step=8)
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


def test_checkpoint_of_format_1_is_void_and_its_run_starts_over(tmp_path, whole):
    store = interrupted(tmp_path, SPECS[0], at_step=20)
    folder = store.folder(SPECS[0]).path
    for path in checkpoint_files(folder):
        buffer = io.BytesIO()
        torch.save(read_checkpoint(path, CPU), buffer)
        path.write_bytes(b"supple checkpoint 1\n" + b"\0" * 32 + buffer.getvalue())
    assert execute(SPECS[0], store) == "done"
    assert logs_of(store, SPECS[0]) == logs_of(whole, SPECS[0])
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
