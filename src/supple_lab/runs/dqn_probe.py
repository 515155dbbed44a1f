"""The probe of a DQN run: states drawn from the replay, on which the metrics are measured after each iteration."""

from collections.abc import Iterator

from supple.learner import Batch
from supple.metrics.observe import observe_sites, undisturbed
from supple_lab.rl.replay import Transitions
from supple_lab.runs.agent import Agent, network_input, states_and_worths
from supple_lab.runs.probe_gradients import BATCH_SIZE, measure_on_probe
from supple_lab.streams import stream

NUM_PROBED = 2048  # states that metrics see: more than the 512 features whose rank is asked for


def metric_values(agent: Agent, *, seed: int, iteration: int) -> dict[str, float]:
    """The problem's metrics on the network of now."""
    replay, learner = agent.replay, agent.trainee.learner
    probe = replay.sample(min(NUM_PROBED, replay.num_transitions), stream(seed, "probe", iteration))
    states = network_input(probe.stack_BSHW)
    with agent.trainee.numerics.forward():
        observation = observe_sites(learner.model, states, sites=None, batch_size=BATCH_SIZE, initial=learner.initial)
    batches = learned_from(agent, probe)
    return measure_on_probe(agent.problem.metrics, observation, trainee=agent.trainee, batches=batches)


def learned_from(agent: Agent, probe: Transitions) -> Iterator[Batch]:
    """The probe as the loss of an update sees it, but for masks: the target network, too, draws none."""
    for parts in zip(*(column.split(BATCH_SIZE) for column in probe), strict=True):
        steps = Transitions(*parts)
        with undisturbed(agent.target), agent.trainee.numerics.forward():
            next_values_BA = agent.target(network_input(steps.next_stack_BSHW))
        yield states_and_worths(steps, next_values_BA, discount=agent.problem.discount)
