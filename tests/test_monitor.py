"""Monitor: what it reads from anybody's loop, what it says, and that it leaves nothing behind."""

import copy
import io
import math
import pickle
import sys
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from matplotlib import pyplot
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.checkpoint import checkpoint

from networks import MLP, Encoder, FunctionalNet, ResNet
from supple import AID, Monitor, ReLUDropout, convert
from supple.alarms import LASTING, LIKELY, LIMITS, RATES, WATCH, changes_since
from supple.metrics.observe import observe
from supple.metrics.units import SaturatedShare
from supple.monitor_table import short_names
from supple.units import UnitGraph, trace_units
from written import holding


def train(network, monitor, inputs, *, num_steps=1):
    """The loop that people write."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for _ in range(num_steps):
        optimizer.zero_grad()
        F.cross_entropy(network(inputs), torch.zeros(len(inputs), dtype=torch.long)).backward()
        optimizer.step()
        monitor.step()


def watched(network, inputs, *, num_steps=1, **options):
    """A Monitor of these steps on the inputs."""
    monitor = Monitor(network, **options)
    train(network, monitor, inputs, num_steps=num_steps)
    return monitor


def one_layer(biases, activation=None):
    """Six inputs, a unit for each of the biases, three outputs."""
    network = nn.Sequential(nn.Linear(6, len(biases)), activation or nn.ReLU(), nn.Linear(len(biases), 3))
    network[0].bias.data.copy_(torch.tensor(biases))
    return network


def count_hooks(network):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in network.modules())


def test_hooks_are_there_only_for_the_steps_read_the_first_and_every_nth():
    network, held = MLP(), []
    monitor = Monitor(network, every=4, history=2)
    for _ in range(9):
        held.append(count_hooks(network) > 0)  # during the forward of steps 1, 2, ...
        train(network, monitor, torch.randn(8, 6))
    assert held == [step in (1, 4, 8) for step in range(1, 10)]
    assert [row["step"] for row in monitor.rows] == [4, 8]  # the last rows only


def test_close_removes_all_hooks_and_keeps_the_report():
    with watched(network := MLP(), torch.randn(8, 6), every=1) as monitor:
        assert count_hooks(network) > 0
    assert count_hooks(network) == 0
    assert "fc1" in monitor.report()


def test_training_is_bit_for_bit_the_same_with_and_without():
    plain = convert(ResNet(), AID(0.9))
    watched = copy.deepcopy(plain)
    images = torch.randn(6, 3, 13, 13)
    for network, every in ((plain, None), (watched, 2)):
        torch.manual_seed(1)
        monitor = Monitor(network, probe=images, every=every) if every else Monitor(nn.Sequential(nn.ReLU()))
        train(network, monitor, images, num_steps=5)
    assert all(torch.equal(tensor, watched.state_dict()[name]) for name, tensor in plain.state_dict().items())


def test_training_numbers_are_those_of_the_training_forward():
    network = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 2))
    nn.init.eye_(network[0].weight)
    inputs = torch.tensor([[1.0, -1.0, 1.0, 2.0], [1.0, -1.0, -1.0, 2.0]])  # always, never, half, always
    monitor = watched(network, inputs)
    row = monitor.rows[0]
    assert (row["train/saturated_share"], row["train/sign_entropy"], row["train/dormant_ratio"]) == (0.75, 0.25, 0.25)
    assert (row["train/0/saturated"], row["train/0/sign_entropy"], row["train/0/dormant"]) == (0.75, 0.25, 0.25)
    assert row["train/0/srank"] == row["train/srank"] == 2.0  # columns (1, 1), (1, 0) and (2, 2): two directions


def test_norms_are_those_of_the_layers_parameters_and_gradients():
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    monitor = watched(network, torch.randn(5, 3))
    row = monitor.rows[0]
    for name in ("0", "2"):
        layer = network.get_submodule(name)
        for key, tensors in (
            ("weight_norm", (layer.weight, layer.bias)),
            ("gradient_norm", (layer.weight.grad, layer.bias.grad)),
        ):
            expected = math.sqrt(sum(t.double().square().sum().item() for t in tensors))
            assert row[f"train/{name}/{key}"] == pytest.approx(expected, rel=1e-6)


class Reader(nn.Module):
    """Recurrent layers and attention, whose weights are not called weight."""

    def __init__(self):
        super().__init__()
        self.lstm, self.cell = nn.LSTM(6, 8, num_layers=2, batch_first=True), nn.GRUCell(8, 8)
        self.attention, self.act, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.ReLU(), nn.Linear(8, 3)

    def forward(self, x):
        h, _ = self.lstm(x)
        h, _ = self.attention(h, h, h)
        return self.head(self.act(self.cell(h[:, -1])))


def test_recurrent_layers_and_attention_have_rows_and_what_is_not_seen_of_them_is_told():
    network = Reader()
    monitor = watched(network, torch.randn(16, 5, 6))
    rows = {row.name: row for row in monitor.readings["train"].layers}
    for name in ("lstm", "cell", "attention", "attention.out_proj"):
        parameters = list(network.get_submodule(name).parameters(recurse=False))
        assert len(parameters) > 1
        norms = rows[name].weight_norm, rows[name].gradient_norm
        wanted = [
            sum(t.detach().square().sum().item() for t in ts) ** 0.5
            for ts in ([*parameters], [p.grad for p in parameters])
        ]
        assert norms == pytest.approx(wanted, rel=1e-5)
    assert monitor.notes() == [
        "recurrent layers compute inside torch: of lstm, cell weights and gradients are read, but no units."
    ]


def test_evaluation_inside_a_step_is_not_read():
    network = MLP()
    monitor = Monitor(network)
    network.eval()(torch.full((5, 6), 100.0))
    with torch.no_grad():
        network.train()(torch.full((5, 6), 100.0))
    train(network, monitor, inputs := torch.randn(32, 6))
    assert "training forward, 32 samples" in monitor.report()
    expected = (network.fc1(inputs) > 0).double().mean(0)
    assert ((expected > 0) & (expected < 1)).any()
    assert monitor.rows[0]["train/fc1/sign_entropy"] > 0


def test_micro_batches_of_one_step_are_read_together():
    network = MLP()
    monitor = Monitor(network)
    for part in torch.randn(12, 6).split(4):
        network(part).sum().backward()
    monitor.step()
    assert "training forward, 12 samples" in monitor.report()


class Agent(nn.Module):
    """An actor and a critic on one trunk, called by its methods, never itself."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        self.actor, self.critic = nn.Linear(16, 16), nn.Linear(16, 1)

    def get_value(self, x):
        return self.critic(self.trunk(x))

    def get_action_and_value(self, x):
        hidden = self.trunk(x)
        return self.actor(hidden), self.critic(hidden)


def test_agent_whose_methods_call_its_parts_has_one_row_per_layer_over_all_samples():
    agent, first, second = Agent(), torch.randn(32, 4), torch.randn(32, 4)
    model = nn.Sequential(agent.trunk, agent.critic)
    whole = Monitor(model)
    model(torch.cat([first, second]))
    whole.step()
    monitor = Monitor(agent)
    logits, values = agent.get_action_and_value(first)
    (logits.sum() + values.sum() + agent.get_value(second).sum()).backward()
    monitor.step()
    rows = monitor.readings["train"].layers
    assert [row.name for row in rows] == ["trunk.0", "trunk.2", "actor", "critic"]
    assert [row.units for row in rows] == [*(row.units for row in whole.readings["train"].layers), None]
    assert "training forward, 64 samples" in monitor.report()


def test_recomputed_forward_of_a_checkpoint_is_counted_once():
    @holding(lambda: {"body": nn.Sequential(nn.Linear(6, 8), nn.ReLU()), "head": nn.Linear(8, 3)})
    class Checkpointed(nn.Module):
        def forward(self, x):
            return self.head(checkpoint(self.body, x, use_reentrant=False))

    network = Checkpointed()
    monitor = watched(network, torch.randn(16, 6))
    assert [row.name for row in monitor.readings["train"].layers] == ["body.0", "head"]


def test_probe_adds_evaluation_numbers_from_the_start():
    network, probe = convert(ResNet(), AID(0.9)), torch.randn(9, 3, 13, 13)
    monitor = Monitor(network, probe=probe)
    assert monitor.rows[0]["step"] == 0
    train(network, monitor, torch.randn(4, 3, 13, 13))
    expected = SaturatedShare().measure(observe(network, probe))["saturated_share"]
    assert monitor.rows[1]["probe/saturated_share"] == expected
    assert "probe in evaluation mode, 9 samples" in monitor.report()


DEAD, ALIVE = -3.0, 0.0
NORMAL = torch.randn(256, 6).clamp(-1.5, 1.5)  # no weighted sum of them comes near -DEAD


def planted(network, edit, *, inputs=NORMAL, **options):
    """A Monitor of a step with the network as it is, and of as many after the edit as a warning takes."""
    monitor = Monitor(network, every=1, **options)
    train(network, monitor, inputs)
    with torch.no_grad():
        edit(network)
    for _ in range(LASTING):
        assert monitor.verdict().startswith("no verdict yet")
        train(network, monitor, inputs)
    return monitor


def biases(*values):
    return lambda network: network[0].bias.copy_(torch.tensor(values))


CHANGES = {  # biases that kill count as weights that grew, too: by half of what units lose here
    "a quarter dead": (
        biases(*[DEAD] * 4, *[ALIVE] * 12),
        "watch layer 0: 25% of its units never fire, 0% at step 1. Next: supple.diagnose",
        ["warning: layer 0, on this batch: 25% of its units never fire, 0% at step 1; units that "],
        ["directions"],
    ),
    "all dead": (
        biases(*[DEAD] * 16),
        "plasticity loss likely: layer 0: 100% of its units never fire, 0% at step 1. Next: supple.plasticity_gap",
        [],
        [],
    ),
    "of one direction": (
        lambda network: network[0].weight.copy_(network[0].weight[:1].expand(16, -1)),
        "watch layer 0: its activations have 2 directions, 16 at step 1. Next: supple.diagnose",
        ["the layers behind it can tell fewer inputs apart"],
        [],
    ),
    "grown": (
        lambda network: network[0].weight.mul_(30.0),
        "watch layer 0: its weights are 29.9 times as large as at step 1. Next: supple.diagnose",
        ["the less a step changes"],
        [],
    ),
    "an eighth dead": (
        biases(*[DEAD] * 2, *[ALIVE] * 14),
        "healthy: wear 0.",
        ["compared with step 1. In new trainings (docs/results/monitor_reference.md) 'watch' came in "],
        ["warning"],
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_change_since_the_start_is_reported_in_words(case):
    edit, verdict, said, not_said = CHANGES[case]
    torch.manual_seed(0)
    network = one_layer([ALIVE] * 16)
    network[0].bias.data.uniform_(0.0, 0.1)
    monitor = planted(network, edit)
    report = " ".join(monitor.report().split())
    assert report.startswith(verdict)
    assert [words for words in said if words not in report] == []
    warnings = report[report.find("warning") :]
    assert [words for words in not_said if words in warnings] == []
    assert monitor.first["train"].step == 1


def test_change_that_does_not_last_is_no_warning():
    monitor = Monitor(network := one_layer([ALIVE] * 16), every=1)
    for level in (ALIVE, DEAD, DEAD, ALIVE, DEAD, DEAD):
        network[0].bias.data.fill_(level)
        train(network, monitor, NORMAL)
        assert not any(monitor.alarms.values())
    train(network, monitor, NORMAL)
    assert monitor.verdict().startswith("plasticity loss likely")


def test_units_that_never_fire_count_if_there_are_no_gradients():
    network = one_layer([ALIVE] * 16)
    monitor = Monitor(network, every=1)
    for step in range(1 + LASTING):
        network[0].bias.data.fill_(DEAD if step else ALIVE)
        network(NORMAL)
        monitor.step()
    assert monitor.verdict().startswith("plasticity loss likely: layer 0: 100% of its units never fire, 0% at step 1")


@pytest.mark.parametrize("width", [64, 256])
def test_weight_of_rank_one_is_reported_as_lost_directions_in_spite_of_its_bias(width):
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))

    def make_rank_one(network):
        network[2].weight.copy_(torch.outer(torch.randn(width), torch.randn(width)))

    monitor = planted(network, make_rank_one, inputs=torch.randn(256, 20))
    assert monitor.rows[1]["train/2/srank"] > 1.0
    assert {alarm.layer for alarm in monitor.alarms["train"]} == {"2"}
    assert "directions" in monitor.alarms["train"][0].change


@pytest.mark.parametrize(
    ("biases_at_start", "num_inputs", "activation"),
    [([DEAD] * 12, 6, nn.ReLU), ([ALIVE] * 64, 4, nn.Tanh), ([ALIVE] * 256, 2, nn.GELU)],
)
def test_what_was_so_at_the_start_is_no_warning(biases_at_start, num_inputs, activation):
    network = one_layer(biases_at_start, activation())
    network[0] = nn.Linear(num_inputs, len(biases_at_start))
    network[0].bias.data.copy_(torch.tensor(biases_at_start))
    monitor = watched(network, torch.randn(64, num_inputs), num_steps=1)
    assert monitor.report().startswith("no verdict yet")
    train(network, monitor, torch.randn(64, num_inputs), num_steps=200 * LASTING)
    assert monitor.report().startswith("healthy")
    assert "warning" not in monitor.report()


def test_smaller_batch_is_not_compared():
    network = one_layer([ALIVE] * 16)
    monitor = Monitor(network, every=1)
    train(network, monitor, NORMAL)
    for _ in range(LASTING):
        train(network, monitor, NORMAL[:1])
    assert monitor.rows[1]["train/0/dormant"] > 0.2
    assert ["train/wear" in row for row in monitor.rows] == [True] + [False] * LASTING
    assert monitor.verdict().startswith("no verdict yet")


def test_probe_is_no_reference_before_running_statistics_are_of_the_data():
    network, images = ResNet(), torch.randn(8, 3, 13, 13)
    monitor = Monitor(network, probe=images, every=5)
    train(network, monitor, images, num_steps=20)
    assert {source: first.step for source, first in monitor.first.items()} == {"train": 1, "probe": 20}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_healthy_training_is_not_warned_of_and_a_ruined_one_is(seed):
    pixels, digits = (torch.tensor(part) for part in load_digits(return_X_y=True))
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(digits), generator=generator)
    pixels, digits = pixels[order].float() / 16, digits[order]
    for rate, num_steps in ((3e-3, 500), (2e-2, 600)):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        optimizer, monitor, verdicts = torch.optim.Adam(network.parameters(), lr=rate), Monitor(network, every=100), []
        labels = digits
        for step in range(num_steps):
            if rate == 2e-2 and step % 200 == 0:
                labels = torch.randint(10, (1500,), generator=generator)
            batch = torch.randint(1500, (64,), generator=generator)
            optimizer.zero_grad()
            F.cross_entropy(network(pixels[batch]), labels[batch]).backward()
            optimizer.step()
            monitor.step()
            verdicts.append(monitor.verdict())
        if rate == 3e-3:
            assert (network(pixels[1500:]).argmax(1) == digits[1500:]).double().mean() > 0.9
            assert {verdict.split(":")[0] for verdict in verdicts} == {"no verdict yet", "healthy"}
    assert verdicts[-1].startswith("plasticity loss likely: layer ")


def test_table_shows_the_start_and_now():
    network = one_layer([ALIVE] * 16)
    network[0].weight.data.mul_(0.01)
    report = planted(network, biases(*[DEAD] * 12, *[ALIVE] * 4)).report()
    assert "step 1 -> 4: training forward, 256 samples" in report
    row = next(line for line in report.splitlines() if line.startswith("0 ")).split()
    assert row[1:4] == ["16", "0->75%", "0->75%"]


def test_plot_has_a_panel_for_each_number_and_a_line_for_each_layer():
    monitor = watched(MLP(), torch.randn(32, 6), num_steps=3, every=1)
    figure = monitor.plot()
    assert [len(axes.get_lines()) for axes in figure.axes] == [2, 2, 2, 2, 3, 3]
    steps, values = figure.axes[4].get_lines()[0].get_data()
    assert (list(steps), list(values)) == ([1, 2, 3], [row["train/fc1/weight_norm"] for row in monitor.rows])
    assert figure.get_suptitle() == monitor.verdict()
    pyplot.close(figure)
    with pytest.raises(ValueError, match="nothing has been read yet"):
        Monitor(MLP()).plot()


def test_plot_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        watched(MLP(), torch.randn(32, 6)).plot()


def test_network_that_diverged_is_reported_and_does_not_stop_the_loop():
    network = MLP()
    network.fc2.weight.data[0, 0] = torch.nan
    monitor = watched(network, torch.randn(8, 6), probe=torch.randn(8, 6))
    report = " ".join(monitor.report().split())
    assert report.startswith("watch layer fc")
    assert "fc2 8 nan nan nan nan nan nan" in report
    assert "layer fc2, on this batch: not finite: its activations, weights, gradient; the training has" in report


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zeroed_gradients_are_named_as_the_reason_for_a_dash_or_zeros(set_to_none):
    network = MLP()
    monitor = Monitor(network)
    network(torch.randn(8, 6)).sum().backward()
    network.zero_grad(set_to_none)
    monitor.step()
    assert "call monitor.step() before optimizer.zero_grad()" in " ".join(monitor.report().split())


def test_report_has_a_line_per_layer_within_100_columns():
    network = nn.Sequential()
    network.add_module("a_block_with_quite_a_long_name_as_they_come", convert(ResNet(), AID(0.9)))
    monitor = watched(network, torch.randn(4, 3, 13, 13), probe=torch.randn(4, 3, 13, 13))
    lines = monitor.report().splitlines()
    assert max(map(len, lines)) <= 100
    layers = [m for m in network.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    assert sum(line.startswith("...") for line in lines) == 2 * len(layers)


def test_names_are_shortened_as_far_as_they_stay_different():
    names = [f"encoder.layer.{number}.attention.self.query" for number in (1, 11)]
    assert short_names([*names, "head"], 20) == ["....1.attention.self.query", "...11.attention.self.query", "head"]
    assert short_names(names[:1], 20) == ["...ention.self.query"]
    assert short_names([], 20) == []


def test_report_before_the_first_step_says_that_nothing_was_read():
    assert "nothing has been read yet; call monitor.step()" in Monitor(MLP()).report()


def test_writer_with_add_scalar_or_a_function_gets_every_number():
    class Writer:
        def __init__(self):
            self.scalars = {}

        def add_scalar(self, tag, value, step):
            self.scalars[tag, step] = value

    writer, rows = Writer(), []
    monitor = watched(MLP(), torch.randn(8, 6), num_steps=2, writer=writer, every=2)
    assert list(watched(MLP(), torch.randn(8, 6), num_steps=4, writer=rows.append, every=2).rows) == rows
    assert len(rows) == 3
    expected = {(tag, row["step"]): v for row in monitor.rows for tag, v in row.items() if tag != "step"}
    assert writer.scalars == expected
    assert ("train/fc1/dormant", 2) in expected


def make_layer():
    return one_layer([0.0] * 16)


def asking(network, *, biases=0.0, **options):
    """A Monitor that asked for the gap after steps 3 and 6 of 7 on random labels."""
    inputs = torch.randn(64, 6)
    data = [(inputs, torch.randint(3, (64,)))]
    network[0].bias.data += biases
    options = {"gap_options": {"steps": 60, "lr": 0.03}, "loss": F.cross_entropy, "data": data} | options
    return watched(network, inputs, num_steps=7, gap_every=3, fresh=make_layer, **({"every": 2} | options))


def test_gap_is_measured_now_and_then_and_written():
    written = []
    monitor = asking(make_layer(), writer=written.append)
    assert list(monitor.gaps) == [3, 6]
    assert [row["step"] for row in written if "gap/value" in row] == [3, 6]
    assert written == list(monitor.rows)
    assert written[-1]["gap/value"] == monitor.gaps[6].value
    assert monitor.verdict().startswith("healthy")
    assert "gap at step 6: plastic: value " in monitor.report()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"steps": 5}, "plasticity_gap's steps must be at least 12"),
        ({"step": 50}, "gap_options may have test, steps, .*; got 'step'"),
    ],
)
def test_question_that_cannot_be_asked_is_refused_before_the_training(options, told):
    with pytest.raises((TypeError, ValueError), match=told):
        Monitor(make_layer(), gap_every=3, fresh=make_layer, data=[(NORMAL, torch.zeros(256))], gap_options=options)


def test_gap_that_is_lost_is_the_verdict():
    monitor = asking(make_layer(), biases=-100.0)  # so it was at the start: no change to warn of
    assert monitor.gaps[6].value > 0.9  # the last bias still learns
    assert monitor.verdict() == f"plasticity lost: value {monitor.gaps[6].value:.2f} at step 6. Next: supple.diagnose"


def test_a_gap_is_no_reading_that_could_be_compared():
    monitor = asking(make_layer(), every=100)
    assert len(monitor.rows) == 3  # of step 1, and two gaps
    assert monitor.verdict().startswith("no verdict yet")


def test_one_row_of_history_suffices_for_a_verdict():
    network = make_layer()
    assert watched(network, torch.randn(64, 6), num_steps=7, every=2, history=1).verdict().startswith("healthy")


def test_report_has_the_verdict_of_a_gap_before_its_warnings():
    monitor = asking(make_layer(), biases=-100.0, gap_options={"steps": 60, "lr": 1e-5})
    *warnings, verdict = monitor.gaps[6].headline()
    assert warnings  # in such a budget fresh networks hardly learn
    assert f"gap at step 6: {verdict}\n  {warnings[0]}" in monitor.report()


def test_data_of_the_gap_may_be_what_comes_next():
    stages = iter([[(torch.randn(8, 6), torch.zeros(8, dtype=torch.long))], [(torch.ones(4, 6), torch.ones(4).long())]])
    monitor = asking(make_layer(), data=lambda: next(stages))
    assert len(monitor.gaps) == 2
    assert next(stages, None) is None


def test_training_is_the_same_with_gaps_in_between():
    plain, asked = make_layer(), make_layer()
    asked.load_state_dict(plain.state_dict())
    inputs = torch.randn(64, 6)
    question = {"gap_every": 2, "fresh": make_layer, "data": [(inputs, torch.zeros(64).long())]}
    for network, options in ((plain, {}), (asked, question | {"loss": F.cross_entropy, "gap_options": {"steps": 12}})):
        torch.manual_seed(3)
        watched(network, inputs, num_steps=5, every=2, **options)
    assert all(map(torch.equal, plain.state_dict().values(), asked.state_dict().values()))


def test_distance_from_init_is_measured_from_what_is_passed():
    network = MLP()
    initial = copy.deepcopy(network.state_dict())
    monitor = watched(network, torch.randn(8, 6), initial=initial)
    moved = sum((p - initial[name]).double().square().sum().item() for name, p in network.named_parameters())
    assert monitor.rows[0]["train/distance_from_init"] == pytest.approx(math.sqrt(moved), rel=1e-6)


def test_unit_graph_chooses_the_sites_and_tells_what_it_skipped():
    network = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    graph = UnitGraph((trace_units(network, torch.randn(2, 6))["1"],), ("3 is left out.",))
    monitor = watched(network, torch.randn(8, 6), sites=graph)
    assert "train/0/dormant" in monitor.rows[0]
    assert "train/2/dormant" not in monitor.rows[0]
    assert "3 is left out." in monitor.report()


@pytest.mark.parametrize(("network", "inputs"), [(FunctionalNet(), (4, 3, 6, 6)), (Encoder(), (4, 6))])
def test_model_without_activation_modules_still_gets_its_norms_and_is_told_why(network, inputs):
    with pytest.warns(UserWarning, match="no activation module was found"):
        monitor = watched(network, torch.randn(inputs), probe=torch.randn(inputs))
    assert monitor.rows[-1]["train/head/weight_norm"] > 0
    assert "no activation module was found" in " ".join(monitor.report().split())


def test_model_converted_in_between_is_read_at_its_new_sites():
    network = MLP()
    monitor = watched(network, torch.randn(8, 6), every=3)
    convert(network, AID(0.9))
    train(network, monitor, torch.randn(8, 6), num_steps=2)
    assert "by construction for AID" in monitor.report()


@pytest.mark.parametrize("activation", [AID(0.99), ReLUDropout(0.9), AID(0.99, inplace=True)])
def test_masks_of_one_batch_make_no_unit_dormant(activation):
    network = nn.Sequential(nn.Linear(6, 64), activation, nn.Linear(64, 3))
    with torch.no_grad():
        network[0].weight.zero_()
        network[0].bias.fill_(-1.0 if isinstance(activation, AID) else 1.0)
    inputs = torch.rand(2, 6)
    assert (network[:2](inputs) == 0).all(0).any()  # the masks do silence units
    monitor = watched(network, inputs)
    assert network[1].training
    assert monitor.rows[0]["train/dormant_ratio"] == 0.0


def test_compiled_model_says_what_it_cannot_see_and_uses_the_probe():
    network, inputs = MLP(), torch.randn(8, 6)
    compiled = torch.compile(network, backend="eager", fullgraph=True)
    monitor = Monitor(compiled, probe=inputs)
    train(compiled, monitor, inputs)
    row, report = monitor.rows[-1], " ".join(monitor.report().split())
    assert "hooks do not fire inside code made by torch.compile" in report
    assert "The probe ran the original Python code." in report
    assert "train/fc1/gradient_norm" in row
    assert "train/fc1/dormant" not in row
    assert "probe/fc1/dormant" in row


def test_model_compiled_under_the_monitors_eyes_compiles_whole_and_is_noticed():
    network, inputs = MLP(), torch.randn(8, 6)
    monitor = Monitor(network, every=1)
    compiled = torch.compile(network, backend="eager", fullgraph=True)
    train(compiled, monitor, inputs, num_steps=3)
    assert "no training forward of the model was seen at step 3" in monitor.report()
    assert monitor.verdict() == "no verdict: no forward was seen to judge by; report() says why"


def test_report_cites_the_rates_that_its_limits_have():
    monitor = Monitor(MLP(), every=1)
    assert "healthy ones" not in monitor.report()
    train(monitor.model, monitor, torch.randn(8, 6))
    for watching, measured in ((monitor, False), (asking(make_layer()), True)):
        cited = f"'watch' came in {RATES[measured][WATCH][0]}% of healthy ones"
        assert cited in " ".join(watching.report().split())


def test_before_the_first_gap_the_limits_and_rates_are_those_without_it():
    question = {"gap_every": 100, "fresh": make_layer, "data": [(NORMAL, torch.zeros(256))]}
    for options in ({}, question):
        monitor = planted(one_layer([ALIVE] * 16), lambda network: network[0].weight.mul_(40.0), **options)
        (alarm,) = monitor.alarms["train"]
        assert LIMITS[False][0] < monitor.rows[-1]["train/wear"] < LIMITS[True][0]
        assert alarm.level == WATCH
        assert f"{RATES[False][WATCH][1]}% of ruined" in " ".join(monitor.report().split())


@pytest.mark.parametrize(("value", "level"), [(0.1, 0), (0.3, WATCH), (0.6, LIKELY), (math.nan, 0)])
def test_gap_adds_to_the_wear(value, level):
    monitor = planted(one_layer([ALIVE] * 16), lambda network: network[0].weight.mul_(10.0))  # half a hundredfold
    alarms = changes_since(monitor.first["train"], monitor._latest["train"], gap=value)
    assert {alarm.level for alarm in alarms} == {level} - {0}
    assert [alarm.layer for alarm in alarms] == ["", "0"] * bool(level)  # the gap is more than half of what is lost


@pytest.mark.parametrize("biases", [[ALIVE] * 16, [DEAD] * 16, [ALIVE] * 4])
def test_gap_warns_even_if_no_layer_has_lost_anything(biases):
    targets = torch.zeros(len(NORMAL), dtype=torch.long)
    question = {"fresh": lambda: one_layer([ALIVE] * len(biases)), "data": [(NORMAL, targets)], "loss": F.cross_entropy}
    question |= {"gap_every": LASTING + 1, "gap_options": {"steps": 12, "seeds": 2}}
    monitor = planted(one_layer(biases), lambda network: None, **question)
    ((step, gap),) = monitor.gaps.items()
    monitor.gaps[step] = replace(gap, value=0.48, verdict="not decided")
    assert monitor.verdict().startswith("watch the network: its plasticity gap is 0.48, where 0.5 counts as lost. ")
    report = " ".join(monitor.report().split())
    assert "warning: the network: its plasticity gap is 0.48" in report
    assert "units never fire, 0% at" not in report


def test_layers_that_a_forward_leaves_out_are_not_worn():
    parts = nn.ModuleList(nn.Sequential(nn.Linear(6, 16), nn.ReLU()) for _ in range(2))
    monitor = Monitor(parts, every=1)
    for step in range(LASTING + 1):
        for part in parts if step == 0 else parts[:1]:  # two tasks, then one of them
            part(NORMAL[:, :6]).sum().backward()
        monitor.step()
    assert [row["train/wear"] for row in monitor.rows] == [0.0] * (LASTING + 1)
    assert monitor.verdict().startswith("healthy: wear 0.00")


def test_network_without_layers_that_count_is_not_called_healthy():
    monitor = planted(one_layer([ALIVE] * 7), lambda network: network[0].weight.mul_(1000.0))
    assert monitor.verdict() == "no verdict: no hidden layer of 8 units or more is there to judge by"
    assert planted(one_layer([ALIVE] * 8), lambda network: None).verdict().startswith("healthy")


def test_layers_that_are_equally_worn_are_named():
    layers = [part for _ in range(6) for part in (nn.Linear(16, 16), nn.Tanh())]
    monitor = planted(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), *layers), lambda network: None)
    first = monitor.first["train"]
    for growth in torch.linspace(30.0, 90.0, 200).tolist():  # of equal numbers the mean may be rounded up
        rows = [replace(row, weight_norm=growth * row.weight_norm) for row in first.layers]
        assert len(changes_since(first, [replace(first, layers=rows)] * LASTING)) > 0, growth


def test_wear_is_the_mean_of_layers_and_is_written():
    network = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4), nn.Tanh())
    for layer in network[::2]:
        nn.init.zeros_(layer.bias)

    def grow(network):
        network[2].weight.mul_(10.0)
        network[4].weight.mul_(100.0)  # too few units to count

    rows = planted(network, grow, metrics=[]).rows
    assert rows[0]["train/wear"] == 0.0
    assert rows[1]["train/2/srank"] >= rows[0]["train/2/srank"]
    assert rows[1]["train/wear"] == pytest.approx(0.25, abs=0.01)


def test_readings_are_compared_with_the_first_that_saw_a_forward():
    network, inputs = MLP(), torch.randn(8, 6)
    monitor = Monitor(network, every=1)
    train(network.eval(), monitor, inputs, num_steps=5)
    assert monitor.verdict().startswith("no verdict: no forward")
    train(network.train(), monitor, inputs, num_steps=3)
    assert monitor.verdict().startswith("no verdict yet")
    train(network, monitor, inputs, num_steps=1)
    assert "since step 6" in monitor.verdict()


def test_compiled_part_is_named_and_the_rest_is_read():
    network = nn.Sequential(nn.Sequential(nn.Linear(6, 8), nn.ReLU()), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    network[0] = torch.compile(network[0], backend="eager")
    monitor = watched(network, torch.randn(8, 6))
    assert "train/1/dormant" in monitor.rows[0]
    assert "train/0.0/dormant" not in monitor.rows[0]
    assert "training forwards were not read at: 0.1." in " ".join(monitor.report().split())


def test_copies_and_saved_models_take_no_monitor_along():
    network, inputs = MLP(), torch.randn(8, 6)
    monitor = Monitor(network)
    file = io.BytesIO()
    torch.save(network, file)
    file.seek(0)
    for other in (copy.deepcopy(network), torch.load(file, weights_only=False), pickle.loads(pickle.dumps(network))):
        assert torch.equal(other(inputs), network.eval()(inputs))
    monitor.step()
    assert "no training forward" in monitor.report()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"model": "resnet18"}, TypeError, "Monitor needs the model as an nn.Module; got str"),
        ({"model": MLP(), "every": 0}, ValueError, "Monitor.every is a number of steps, at least 1; got 0"),
        ({"model": MLP(), "every": "a"}, TypeError, "Monitor.every must be a whole number; got 'a', a str."),
        ({"model": MLP(), "history": 0}, ValueError, "Monitor.history is a number of rows, at least 1; got 0."),
        ({"model": MLP(), "history": 2.5}, TypeError, "Monitor.history must be a whole number; got 2.5, a float."),
        (
            {"model": MLP(), "metrics": ["srank"]},
            TypeError,
            "Monitor.metrics must hold metrics, e.g. .*; got 'srank', a str.",
        ),
        ({"model": MLP(), "gap_every": 5}, TypeError, "Monitor.gap_every needs fresh="),
        ({"model": MLP(), "data": torch.zeros(2, 6)}, TypeError, "Monitor.gap_every needs fresh="),
        ({"model": MLP(), "gap_every": 0, "fresh": MLP, "data": [1]}, ValueError, "Monitor.gap_every is a number of"),
        ({"model": MLP(), "gap_every": 5, "fresh": MLP, "data": iter([1])}, TypeError, "a generator can be read once"),
        ({"model": MLP(), "writer": 3}, TypeError, "writer must have add_scalar.* or be a function .* got int"),
    ],
)
def test_wrong_argument_is_refused_by_name(arguments, error, message):
    with pytest.raises(error, match=message):
        Monitor(**arguments)


@pytest.mark.parametrize("probe", [None, torch.randn(16, 4)])
def test_lazy_modules_are_read_from_the_step_after_their_first_forward(probe):
    network = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(2))
    monitor = Monitor(network, probe, every=3)
    assert "'0.weight' has no shape before its first forward" in monitor.report()
    for _ in range(3):
        network(torch.randn(16, 4)).sum().backward()
        monitor.step()
    assert [row["step"] for row in monitor.rows] == [2, 3]
    assert [row.name for row in monitor.readings["train"].layers] == ["0", "2"]
    assert monitor.readings["train"].num_samples == 16
