"""Adapters in two processes of DistributedDataParallel, which the library puts around the network itself."""

import os
import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from plain_training import METHODS

import timm_shim

NAMES = ("vanilla", "s_ewc", "cbp", "redo", "dash", "shrink_perturb")


def with_lightning(name, folder):
    import torch.nn.functional as F
    from test_lightning_callback import Module, PlasticityCallback, fit

    module = Module()
    callback = PlasticityCallback(METHODS[name], part="net", epochs_per_stage=2, loss=F.cross_entropy)
    fit(callback, module, epochs=6, devices=2, strategy="ddp", default_root_dir=folder)
    return module.net, callback


def with_transformers(name, folder):
    import torch.nn.functional as F
    from test_transformers_callback import PlasticityCallback, train

    callback = PlasticityCallback(METHODS[name], epochs_per_stage=2, loss=F.cross_entropy)
    model, _ = train(callback, folder, epochs=6)
    return model.net, callback


def in_each(rank, folder, port, library):
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test"}
    os.environ.update({key: str(value) for key, value in (ranks | place).items()})
    torch.set_num_threads(1)
    timm_shim.declare_operators()
    answers = {}
    for name in NAMES:
        network, callback = {"lightning": with_lightning, "transformers": with_transformers}[library](name, folder)
        own = callback.plasticity
        weights = {key: value.detach().clone() for key, value in network.state_dict().items()}
        has_group = own.learner.process_group is not None
        answers[name] = {"weights": weights, "state": dict(own.states[0]), "steps": own.num_steps, "group": has_group}
        answers[name]["stage"] = own.stage
    torch.save(answers, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize("library", ["lightning", "transformers"])
def test_copies_that_the_library_wraps_stay_bit_equal(library, tmp_path):
    pytest.importorskip(library)
    torch.multiprocessing.spawn(in_each, args=(str(tmp_path), free_port(), library), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    for name, answer in first.items():
        assert answer["group"], name
        assert answer["stage"] == 2
        for kind in ("weights", "state"):
            for key, tensor in answer[kind].items():
                assert torch.equal(tensor, second[name][kind][key]), (name, key)
        vanilla = first["vanilla"]["weights"]
        is_same = all(torch.equal(tensor, vanilla[key]) for key, tensor in answer["weights"].items())
        assert is_same == (name == "vanilla")
