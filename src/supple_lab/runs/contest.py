"""Contest: an agent's score in games that it does not learn from (125,000 steps at epsilon 0.001, as Dopamine's)."""

import random
from collections.abc import Callable

import numpy as np

from supple_lab.runs.agent import Agent
from supple_lab.streams import stream_seed


def contest(agent: Agent, *, seed: int, iteration: int, tell: Callable[[], None]) -> dict[str, float]:
    """Play whole games, in evaluation mode, until the steps are over; changes nothing that training depends on."""
    problem, stack = agent.problem, agent.stack
    environment = problem.game.start(stream_seed(seed, "evaluation", iteration))
    chance = random.Random(stream_seed(seed, "evaluation actions", iteration))
    scores: list[float] = []
    num_steps, score, over = 0, None, True
    while score is None or num_steps < problem.evaluation_steps:
        if over:
            stack.begin_(environment.reset())
        step = environment.step(agent.act("eval", chance, epsilon=problem.evaluation_epsilon))
        stack.push_(step.frame)
        num_steps, score, over = num_steps + 1, step.score, step.over
        if score is not None:
            scores.append(score)
        tell()
    spread = {"score_deviation": float(np.std(scores, ddof=1))} if len(scores) > 1 else {}
    return {"score": float(np.mean(scores)), **spread, "num_games": len(scores)}
