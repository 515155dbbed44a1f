"""Several processes train copies of a network on different data: the copies stay bit-equal, resets included."""

import functools
import multiprocessing
import warnings
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from supple import attach, methods
from supple.integrations.stage_data import BackwardEnd

FORK = multiprocessing.get_context("fork")
METHODS = {
    "cbp": methods.CBP(replacement_rate=0.05, maturity=3),
    "adaptable": methods.CBP(replacement_rate=0.05, maturity=3, utility="adaptable_contribution"),
    "redo": methods.ReDo(threshold=0.8),
    "redo_every": methods.ReDo(threshold=0.8, every=15, num_examples=50),
    "dash": methods.DASH(),
    "dash_every": methods.DASH(every=15),
    "s_ewc": methods.SEWC(strength=10.0),
    "l2_init": methods.L2Init(strength=0.1),
    "shrink_perturb": methods.ShrinkPerturb(),
    "full_reset": methods.FullReset(),
    "l2_er": methods.L2ER(every=5, num_examples=40, rank_rate=0.1),
    "c_chain": methods.CChain(beta=1.0),
    "regrama": methods.ReGraMa(threshold=0.8, signal="activation", every=15),
    "snr": methods.SNR(max_silence=2, every=15),
    "upgd": methods.UPGD(per="unit", sigma=0.1),
}
RENEWING = ("cbp", "adaptable", "redo", "redo_every", "regrama", "snr")
loss_of = nn.CrossEntropyLoss()


def network():
    torch.manual_seed(0)
    layers = nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 3)
    return nn.Sequential(*layers)


def batches(num, seed):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(4, 8, generator=generator), torch.randint(3, (4,), generator=generator)) for _ in range(num)]


def adam(model):
    return torch.optim.Adam(model.parameters(), 1e-2)


def has_new_unit(model):
    """Whether a unit of the last hidden layer was just renewed: what it gives to the output is 0 at first."""
    return bool((model[5].weight == 0).all(dim=0).any())


def train_copies(rank, world_size, num_steps, names=tuple(METHODS)):
    """Train with each method in turn; weights, states and how often units were renewed, by method."""
    answers = {}
    for name in names:
        model, method = network(), METHODS[name]
        wrapped = DistributedDataParallel(model)
        optimizer = adam(model)
        plasticity = attach(wrapped, optimizer, method, loss=loss_of, seed=rank)
        # The ranks have another number of batches at the end of a stage, too.
        data, num_renewals = batches(num_steps, seed=100 + rank), 0
        for step, (x, y) in enumerate(data):
            if step and step % 20 == 0:
                plasticity.end_stage(data[step - 20 + rank : step])
                num_renewals += has_new_unit(model)
                plasticity.begin_stage(data[step : step + 20 - rank])
            optimizer.zero_grad()
            loss = loss_of(wrapped(x), y)
            loss.backward()
            plasticity.see_loss(loss)
            optimizer.step()
            num_renewals += has_new_unit(model)
        tensors = {n: p.detach() for n, p in model.named_parameters()} | plasticity.states[0]
        tensors["stream"] = plasticity.learner.generator.get_state()
        answers[name] = {"tensors": tensors, "num_acts": plasticity.num_acts[0], "num_renewals": num_renewals}
        plasticity.detach()
    return answers


def edited_gradients(rank, world_size):
    """The gradients as they are at the end of a backward, when adapters have them edited."""
    model, seen = network()[3:], []
    wrapped = DistributedDataParallel(model)
    BackwardEnd(model.parameters(), lambda: seen.append([p.grad.clone() for p in model.parameters()]))
    x = torch.randn(20, 32, generator=torch.Generator().manual_seed(1))
    for _ in range(2):
        model.zero_grad()
        wrapped(x.chunk(world_size)[rank]).square().mean().backward()
    whole = network()[3:]
    whole(x).square().mean().backward()
    return [all(map(torch.allclose, gradients, [p.grad for p in whole.parameters()])) for gradients in seen]


def train_shards(rank, world_size):
    """How far sharded training comes to lie from whole training, method by method, and what refuses shards."""
    answers = {}
    for method in (methods.L2(strength=0.1), methods.L2Init(strength=0.1), methods.WeightClipping(kappa=0.5)):
        results = []
        for is_sharded in (False, True):
            model = network()[3:]
            if is_sharded:
                fully_shard(model)
            optimizer = adam(model)
            with warnings.catch_warnings():
                warnings.simplefilter("error" if is_sharded else "ignore")
                plasticity = attach(model, optimizer, method, clip_norm=0.5)
            generator = torch.Generator().manual_seed(2)
            for _ in range(20):
                x = torch.randn(20, 32, generator=generator)
                optimizer.zero_grad()
                model(x[rank::world_size] if is_sharded else x).square().mean().backward()
                optimizer.step()
            saved = plasticity.state_dict()
            plasticity.load_state_dict(saved)
            results.append([p.full_tensor() if is_sharded else p.detach().clone() for p in model.parameters()])
        answers[method.name] = max(float((here - there).abs().max()) for here, there in zip(*results, strict=True))
    sharded = fully_shard(network())
    for method in (
        methods.CBP(),
        methods.ReDo(),
        methods.DASH(),
        methods.SEWC(),
        methods.ShrinkPerturb(),
        methods.FullReset(),
    ):
        try:
            attach(sharded, adam(sharded), method)
        except ValueError as error:
            answers[method.name] = str(error)
    return answers


def warned_of(rank, world_size):
    """What a network that is not wrapped is warned of, and one whose processes are given is not."""
    told = []
    for group in (None, dist.group.WORLD):
        model = network()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            attach(model, adam(model), methods.ShrinkPerturb(), process_group=group)
        told.append([str(warning.message) for warning in seen])
    return told


def in_each(rank, world_size, folder, work):
    """The work of one process, this one for rank 0."""
    meet = f"file://{folder}/meet"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=world_size, timeout=timedelta(minutes=1))
    try:
        torch.save(work(rank, world_size), f"{folder}/{rank}.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()


def answers_of(work, folder, *, num_processes=2):
    """What the work gives in each of the processes, of which this is the first."""
    others = [FORK.Process(target=in_each, args=(i, num_processes, folder, work)) for i in range(1, num_processes)]
    for process in others:
        process.start()
    try:
        in_each(0, num_processes, folder, work)
    finally:
        for process in others:
            process.join(60)
            process.kill()
    return [torch.load(folder / f"{rank}.pt") for rank in range(num_processes)]


def assert_alike(first, *others):
    for name, answer in first.items():
        for other in others:
            for key, tensor in answer["tensors"].items():
                if key.startswith("input."):  # each process keeps what it was trained on itself
                    continue
                assert torch.equal(tensor, other[name]["tensors"][key]), (name, key)
        assert answer["num_acts"], name
        assert all(tensor.isfinite().all() for tensor in answer["tensors"].values())
        assert bool(answer["num_renewals"]) == (name in RENEWING), name


@pytest.mark.parametrize("name", METHODS)
def test_copies_in_two_processes_stay_bit_equal(name, tmp_path):
    assert_alike(*answers_of(functools.partial(train_copies, num_steps=45, names=(name,)), tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("num_processes", [2, 4])
def test_copies_stay_bit_equal_for_long(num_processes, tmp_path):
    work = functools.partial(train_copies, num_steps=200)
    assert_alike(*answers_of(work, tmp_path, num_processes=num_processes))


@pytest.mark.slow
def test_gradients_are_averaged_at_the_end_of_a_backward(tmp_path):
    assert answers_of(edited_gradients, tmp_path) == [[True, True], [True, True]]


@pytest.mark.slow
def test_shards_are_served_entry_by_entry_and_refused_by_other_methods(tmp_path):
    for answer in answers_of(train_shards, tmp_path):
        assert answer.pop("l2") < 1e-5
        assert answer.pop("l2_init") < 1e-5
        assert answer.pop("weight_clipping") < 1e-5
        assert set(answer) == {"cbp", "redo", "dash", "s_ewc", "shrink_perturb", "full_reset"}
        assert answer["cbp"] == (
            "CBP does not work with parameters that FSDP2 shards: no process holds whole layers. "
            "Use DistributedDataParallel, or with FSDP2 L2, L2Init or WeightClipping."
        )


@pytest.mark.slow
def test_network_that_is_not_wrapped_is_warned_of_unless_its_processes_are_given(tmp_path):
    for alone, together in answers_of(warned_of, tmp_path):
        (warning,) = alone
        assert "not in DistributedDataParallel" in warning
        assert not together
