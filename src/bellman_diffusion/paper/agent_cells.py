"""The training of an agent on several seeds, kept as a part of an experiment."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import msgspec
import numpy as np

from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.train import Training, train_agents
from bellman_diffusion.paper.cells import load_or_run, training_run
from bellman_diffusion.paper.experiment import Workplace
from bellman_diffusion.render.curves import Curve


class LearningCurve(msgspec.Struct, kw_only=True):
    """Greedy returns by seed and evaluation."""

    steps: list[int]
    returns: list[list[float]]

    def curve(self) -> Curve:
        """For the figure of learning curves."""
        return np.array(self.steps), np.array(self.returns).T


T = TypeVar("T", bound=LearningCurve)


def load_or_train(
    work: Workplace,
    name: str,
    title: str,
    config: AgentConfig,
    seeds: list[int],
    kind: type[T],
    evaluate: Callable[[Training], T],
) -> T:
    """What `evaluate` makes of a training, which continues where it was stopped."""
    path, key = work.cells / f"{name}.json", config.to_json() | {"seeds": seeds}

    def train() -> T:
        bar = work.bar(title, ("return", "loss"), "steps/s each")
        folder = training_run(path.with_suffix(""), key)
        return evaluate(train_agents(config, seeds, run=folder, progress=bar))

    return load_or_run(path, key, kind, train)


def acting(training: Training, seed: int) -> tuple[Any, Any]:
    """The network that acts and its normalisation, of one of the seeds."""
    state = training.state
    return jax.tree.map(lambda a: a[seed], (state.ema_network, state.normalisation))
