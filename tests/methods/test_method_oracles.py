"""L2, L2 Init, S-EWC, Shrink & Perturb, DASH and Full Reset against their formulas, over several optimizer steps.

The gradient of the loss is torch's; what the methods do to it, to the weights and to the optimizer's state is compared
with oracles that take the same gradients and keep weights and state of their own.
"""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from oracles import penalties, shrinking
from oracles.networks import Activation, Conv, Linear, named_parts
from oracles.rounding import Rounded
from property_settings import examples
from random_networks import Network, exact, networks
from renewal_training import OracleTraining
from supple import Learner
from supple.methods import DASH, L2, SEWC, FullReset, L2Init, Method, ShrinkPerturb

ACTIVATIONS = (Activation("relu"), Activation("tanh"), Activation("crelu"))

OPTIMIZERS = st.one_of(
    st.builds(
        dict, kind=st.just("SGD"), lr=st.just(0.05), momentum=st.sampled_from([0.0, 0.9]), nesterov=st.just(False)
    ),
    st.builds(dict, kind=st.just("SGD"), lr=st.just(0.05), momentum=st.just(0.9), nesterov=st.just(True)),
    st.builds(dict, kind=st.just("RMSprop"), lr=st.just(0.01), momentum=st.sampled_from([0.0, 0.5])),
    st.builds(dict, kind=st.just("Adam"), lr=st.just(0.01), amsgrad=st.booleans()),
    st.builds(dict, kind=st.just("AdamW"), lr=st.just(0.01), weight_decay=st.sampled_from([0.0, 0.1])),
)


class Training(OracleTraining):
    """With a method in torch."""

    def __init__(self, network: Network, method: Method, optimizer: dict, **names: set[str]):
        super().__init__(network, optimizer, **names)
        self.method = method
        self.learner = Learner(self.model, self.optimizer, loss=nn.functional.cross_entropy)
        self.buffers_0 = {name: b.clone() for name, b in self.model.named_buffers()}
        self.state = method.init(self.learner)

    def batch(self, number: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(3, (6,), generator=torch.Generator().manual_seed(number))
        return self.network.inputs(6, salt=number), labels

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    def step(self, number: int, edited) -> None:
        """A step of both; ``edited`` is what the oracle makes of a gradient, given name and gradient."""
        self.optimizer.zero_grad()
        self.loss(self.model, self.batch(number)).backward()
        raw = {name: exact(p.grad, self.unit) for name, p in self.named.items() if p.grad is not None}
        self.method.after_backward(self.learner, self.state)
        for name, gradient in raw.items():
            if name in self.foreign:
                assert torch.equal(self.named[name].grad.double(), torch.tensor(gradient.value)), name
                continue
            gradient = edited(name, gradient)
            self.agree(f"gradient of {name}", self.named[name].grad, gradient)
            self.oracles[name].step(gradient)
        self.optimizer.step()
        self.method.after_step(self.learner, self.state)
        self.compare()

    @property
    def own(self) -> dict:
        """The oracles of the parameters that the optimizer trains."""
        trained = {name for name, parameter in self.named.items() if parameter.requires_grad}
        return {name: oracle for name, oracle in self.oracles.items() if name in trained - self.foreign}


@st.composite
def trainings(draw, methods: st.SearchStrategy[Method]) -> Training:
    network = draw(networks(activations=ACTIVATIONS, kinds=("features", "maps")))
    every = [name for name, _ in network.module().named_parameters()]
    kinds = {"frozen": 2 * network.can_freeze, "foreign": 1 * network.can_freeze, "second_group": 3}
    *others, _ = every  # the head's bias is the optimizer's in any case
    names = {kind: draw(st.sets(st.sampled_from(others), max_size=most)) for kind, most in kinds.items()}
    names["second_group"] -= names["foreign"]
    return Training(network, draw(methods), draw(OPTIMIZERS), **names)


NUM_STEPS = 4
STRENGTHS = st.sampled_from([0.0, 1e-3, 0.1, 1.0])


@examples(12)
@given(training=trainings(st.builds(L2, strength=STRENGTHS)))
def test_l2_adds_its_penalty_to_every_trained_parameter(training):
    for number in range(NUM_STEPS):
        training.step(number, lambda n, g: penalties.l2(g, training.oracles[n].theta, training.method.strength))


@examples(12)
@given(training=trainings(st.builds(L2Init, strength=STRENGTHS)))
def test_l2_init_pulls_every_trained_parameter_to_its_start(training):
    strength, start = training.method.strength, training.initial
    for number in range(NUM_STEPS):
        training.step(number, lambda n, g: penalties.l2_init(g, training.oracles[n].theta, start[n], strength))


SEWCS = st.builds(
    SEWC,
    strength=st.sampled_from([0.1, 10.0]),
    mean_decay=st.sampled_from([0.5, 0.9, 0.999]),
    fisher_decay=st.sampled_from([0.5, 0.9, 0.999]),
)


@examples(12)
@given(training=trainings(SEWCS))
def test_s_ewc_holds_every_parameter_near_the_mean_of_its_values_since_its_first_gradient(training):
    method = training.method
    options = {key: getattr(method, key) for key in ("strength", "mean_decay", "fisher_decay")}
    traces = {name: penalties.StreamingEWC(theta, **options) for name, theta in training.initial.items()}
    for number in range(NUM_STEPS):
        if number == 2:  # those that were frozen begin here
            training.model.requires_grad_(True)
        training.step(number, lambda n, g: traces[n].edited(g, training.oracles[n].theta))


def unedited(name: str, gradient: Rounded) -> Rounded:
    return gradient


@examples(12)
@given(
    training=trainings(
        st.builds(ShrinkPerturb, shrink=st.sampled_from([0.0, 0.2, 0.8, 1.0]), clear_moments=st.booleans())
    )
)
def test_shrink_perturb_mixes_every_parameter_with_its_start_and_leaves_the_buffers(training):
    for number in range(NUM_STEPS):
        if number == 2:
            buffers = {name: b.clone() for name, b in training.model.named_buffers()}
            training.method.begin_stage(training.learner, training.state, [training.batch(number)], 1)
            for name, own in training.own.items():
                own.theta = shrinking.shrink_perturb(own.theta, training.initial[name], training.method.shrink)
                if training.method.clear_moments:
                    own.forget_()
            training.compare()
            assert all(torch.equal(b, buffers[name]) for name, b in training.model.named_buffers())
        training.step(number, unedited)


@examples(12)
@given(training=trainings(st.just(FullReset())))
def test_full_reset_goes_on_as_from_the_start(training):
    for number in range(NUM_STEPS):
        if number == 2:
            buffers = {name: b.clone() for name, b in training.model.named_buffers()}
            training.method.begin_stage(training.learner, training.state, [training.batch(number)], 1)
            for name, own in training.own.items():
                own.theta = training.initial[name].copy()
                own.forget_()
            training.compare()
            for name, buffer in training.model.named_buffers():
                beside = {n for n in training.named if n.rpartition(".")[0] == name.rpartition(".")[0]}
                stays = beside and not beside & set(training.own)  # its norm is not the optimizer's
                assert torch.equal(buffer, buffers[name] if stays else training.buffers_0[name]), name
        training.step(number, unedited)


@examples(12)
@given(
    training=trainings(
        st.builds(DASH, alpha=st.sampled_from([0.1, 0.3, 1.0]), floor=st.sampled_from([0.0, 0.05, 0.3]))
    ),
    num_batches=st.integers(1, 3),
)
@pytest.mark.filterwarnings("ignore:DASH shrinks")
def test_dash_shrinks_each_weight_vector_by_its_cosine_with_the_descent_direction(training, num_batches):
    method = training.method
    shrunk = shrunk_by_dash(training)
    for number in range(NUM_STEPS):
        if number == 2:
            data = [training.batch(10 + k) for k in range(num_batches)]
            gradients = {name: [] for name in shrunk}
            twin = copy.deepcopy(training.model).train()
            for batch in data:
                twin.zero_grad()
                training.loss(twin, batch).backward()
                for name in shrunk:
                    gradients[name].append(exact(dict(twin.named_parameters())[name].grad, training.unit))
            buffers = {name: b.clone() for name, b in training.model.named_buffers()}
            method.begin_stage(training.learner, training.state, data, 1)
            for name in shrunk:
                towards = shrinking.direction(gradients[name], method.alpha)
                training.oracles[name].theta = shrinking.dash(training.oracles[name].theta, towards, method.floor)
            training.compare()
            assert all(torch.equal(b, buffers[name]) for name, b in training.model.named_buffers())
        training.step(number, unedited)


def shrunk_by_dash(training: Training) -> set[str]:
    """Weights and biases of linear layers and convolutions; not of norms, and not of transposed convolutions."""
    parts = dict(named_parts(training.network.parts))
    return {
        name
        for name in training.own
        if isinstance(part := parts[name.rpartition(".")[0]], Linear | Conv) and not getattr(part, "transposed", False)
    }
