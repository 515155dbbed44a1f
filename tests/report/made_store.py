"""Small stores whose runs look trained: what a run that ended leaves in its folder."""

from samples import spec

from supple.methods import UseAID
from supple_lab.store.reading import digests
from supple_lab.store.store import Store

VERSIONS = {"supple": "0.1.0", "torch": "2.13"}


def make_run(store: Store, *, seed: int, method=None, values=(0.5, 0.75), state="done", **facts):
    """The folder of a run that ended, as runs/run.py ends it."""
    made = spec(method or UseAID(), seed)
    folder = store.folder(made)
    folder.create(made)
    for stage, value in enumerate(values):
        folder.stage_log.append({"stage": stage, "train_accuracy": value})
        folder.epoch_log.append({"stage": stage, "epoch": 0, "test_loss": 1.0 - value})
    told = {"num_records": len(values), "seconds": 1.0, "device": "cpu", "versions": VERSIONS, **facts}
    folder.write_status(state, **told, digests=digests(folder.path))
    return folder
