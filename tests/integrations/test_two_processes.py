"""Adapters in two processes of DistributedDataParallel, which see different halves of the data."""

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from plain_training import METHODS, adam, examples, network
from torch.nn.parallel import DistributedDataParallel

from supple.integrations.companion import Companion
from supple.integrations.stage_data import BackwardEnd
from supple.learner import Learner


def in_each(rank, folder):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    model = network()
    wrapped, seen, refused = DistributedDataParallel(model), [], []
    BackwardEnd(model.parameters(), lambda: seen.append([p.grad.clone() for p in model.parameters()]))
    for _ in range(2):
        model.zero_grad()
        wrapped(examples()[0].chunk(2)[rank]).square().mean().backward()
    for name, method in METHODS.items():
        try:
            Companion(model, adam(model), method=method)
        except ValueError as error:
            refused.append((name, "drift apart" in str(error)))
    x, plain = examples()[0], []
    for name, method in METHODS.items():
        try:
            method.init(Learner(wrapped, adam(model), example_input=x, loss=torch.nn.functional.mse_loss))
        except ValueError as error:
            plain.append((name, "drift apart" in str(error)))
    with pytest.warns(UserWarning, match="drift apart.* network of its own, all is well"):
        METHODS["cbp"].init(Learner(model, adam(model), example_input=x))
    torch.save({"seen": seen, "refused": refused, "plain": plain}, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_gradients_are_averaged_when_they_are_edited_and_methods_that_read_data_are_refused(tmp_path):
    torch.multiprocessing.spawn(in_each, args=(str(tmp_path),), nprocs=2)
    told = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    whole = network()
    whole(examples()[0]).square().mean().backward()
    for answer in told:
        assert answer["refused"] == answer["plain"] == [("cbp", True), ("redo", True), ("dash", True)]
        assert len(answer["seen"]) == 2
        for gradients in answer["seen"]:
            pairs = zip(gradients, whole.parameters(), strict=True)
            assert all(torch.allclose(mine, p.grad, atol=1e-6) for mine, p in pairs)
