"""A file that is not what was written is set aside and said so; its run is redone, and no other is touched."""

import pytest

from small_runs import small_spec
from supple_lab.commands.messages import print_damage
from supple_lab.run.run import execute
from supple_lab.store.reading import read_run
from supple_lab.store.store import Store
from supple_lab.sweep.local import Inline
from supple_lab.sweep.sweep import execute_all, unfinished

SPECS = [small_spec(), small_spec(seed=1)]
LOGS = ("records.jsonl", "epochs.jsonl")


@pytest.fixture
def store(tmp_path):
    store = Store.create(tmp_path)
    for spec in SPECS:
        assert execute(spec, store) == "done"
    return store


def contents(store, spec):
    return {path.name: path.read_bytes() for path in store.folder(spec).path.iterdir()}


def cut(content):
    return content[: len(content) // 2]


def garble(content):
    return content[:40] + b"\x00garbage\xff" + content[50:]


def nest(content):
    return b"[" * 100_000 + b"\n"  # deeper than Python reads


def one_digit(content):
    place = next(place for place in range(60, len(content)) if content[place : place + 1].isdigit())
    return content[:place] + str(9 - int(content[place : place + 1])).encode() + content[place + 1 :]


@pytest.mark.parametrize(
    ("name", "damage"),
    [(name, damage) for name in LOGS for damage in (cut, garble, one_digit, nest)]
    + [(name, damage) for name in ("status.json", "spec.json") for damage in (cut, garble, nest)],
)
def test_damaged_file_is_set_aside_and_the_run_redone(store, capsys, name, damage):
    whole, other = contents(store, SPECS[0]), contents(store, SPECS[1])
    path = store.folder(SPECS[0]).path / name
    path.write_bytes(damage(whole[name]))
    todo = unfinished(store, SPECS, retry_failed=False)
    assert todo == [SPECS[0]]
    assert execute_all(todo, Inline(store, device="cpu", jobs=1)) == []
    now = contents(store, SPECS[0])
    assert now[f"{name}.damaged"] == damage(whole[name])
    assert all(now[log] == whole[log] for log in LOGS)
    assert now["spec.json"] == whole["spec.json"]
    assert store.folder(SPECS[0]).state() == "done"
    assert contents(store, SPECS[1]) == other
    print_damage(store, todo)
    assert f"{path}.damaged was set aside as damaged" in capsys.readouterr().err


def test_missing_spec_is_written_again(store):
    (store.folder(SPECS[0]).path / "spec.json").unlink()
    assert unfinished(store, SPECS, retry_failed=False) == [SPECS[0]]
    assert execute(SPECS[0], store) == "done"
    assert read_run(store.folder(SPECS[0]).path).spec == SPECS[0].to_dict()
