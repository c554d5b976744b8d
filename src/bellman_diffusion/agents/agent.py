"""A trained agent: what it does, and the return distributions that it predicts."""

import os
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.learner import Learner
from bellman_diffusion.agents.make import make_learner
from bellman_diffusion.agents.train import SeedSummary, Training
from bellman_diffusion.environments import EnvSpec, make_env
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.models import LearnedReturns, Normalisation
from bellman_diffusion.returns.observations import ObservationScaler, finite_shape, to_row
from bellman_diffusion.returns.support import Support
from bellman_diffusion.training.checkpoint import Header, read_checkpoint, write_checkpoint

AGENT_FILE = "agent.bellman"
_KIND = "agent"


class AgentHeader(Header, frozen=True, kw_only=True):
    """The settings, seeds and last evaluations of a run's agents."""

    config: AgentConfig
    seeds: list[int]
    summary: list[SeedSummary]


class Agent:
    """The agent of one seed of a run. `predict` is Stable-Baselines3's."""

    def __init__(
        self, learner: Learner, spec: EnvSpec, learned: LearnedReturns, seeds: list[int], seed: int
    ) -> None:
        self.learner, self.spec, self.learned = learner, spec, learned
        self.seeds, self.seed = seeds, seed
        """All seeds of the run, and this agent's."""
        self._greedy = eqx.filter_jit(learner.greedy)
        self._outputs = eqx.filter_jit(learner.outputs)
        self._rng = np.random.default_rng(0)

    @property
    def config(self) -> AgentConfig:
        """The settings that it was trained with."""
        return self.learner.config

    @property
    def observation_space(self) -> gym.Space:
        """Of its environment."""
        return self.spec.observation_space

    @property
    def network(self) -> Any:
        """Its weights."""
        return self.learned.network

    @property
    def normalisation(self) -> Normalisation:
        """The scale of its observations and the support of its returns."""
        return self.learned.normalisation

    @classmethod
    def load(cls, run: str | os.PathLike[str], seed: int | None = None) -> "Agent":
        """From a run's folder: the seed with the best last evaluation, or the one asked for."""
        path = Path(run)
        path = path / AGENT_FILE if path.is_dir() else path
        if not path.exists():
            raise InvalidInputError(
                f"{run} holds no agent ({AGENT_FILE}): train one by bellman train; where "
                "its training was stopped, run the same command again"
            )
        stacked, header = read_checkpoint(path, _KIND, AgentHeader, _like)
        seeds = header.seeds
        if seed is None:
            seed = max(header.summary, key=lambda row: row.greedy_return).seed
        if seed not in seeds:
            raise InvalidInputError(f"{path} has the seeds {seeds}, not {seed}")
        place = seeds.index(seed)
        network, normalisation = jax.tree.map(lambda a: a[place], stacked)
        learner, environment = make_learner(header.config)
        learned = LearnedReturns(learner.model, network, normalisation)
        return cls(learner, environment.spec, learned, seeds, seed)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, Any]:
        """The action for one observation or a batch of them, and the state, which is None.

        Not deterministic: with the share of random actions that training ended with.
        """
        del episode_start
        rows, single = self._rows(observation)
        inputs = (self.network, self.normalisation, jnp.asarray(rows))
        actions = np.asarray(self._greedy(*inputs))
        if not deterministic:
            random = self._rng.integers(0, self.spec.n_actions, actions.shape)
            explore = self._rng.uniform(size=actions.shape) < self.config.epsilon_end
            actions = np.where(explore, random, actions)
        actions = actions + self.spec.first_action
        return (int(actions[0]) if single else actions), state

    def returns(self, observation: Any) -> ReturnDistribution:
        """The distributions of the discounted return: of each action, for each observation."""
        rows, single = self._rows(observation)
        outputs = self._outputs(self.network, self.normalisation, jnp.asarray(rows))
        found = self.learner.model.distribution(outputs, self.normalisation)
        return found[0] if single else found

    def make_env(self, **options: Any) -> gym.Env:
        """The Gymnasium environment that it was trained on."""
        return make_env(self.spec.env_id, **(self.spec.options | options))

    def _rows(self, observation: Any) -> tuple[np.ndarray, bool]:
        if isinstance(observation, dict | tuple):
            return self._row(observation)[None], True
        if (
            isinstance(observation, list)
            and observation
            and isinstance(observation[0], dict | tuple)
        ):
            return np.stack([self._row(o) for o in observation]), False
        array = np.asarray(observation)
        shape = tuple(self.observation_space.shape or ())
        if array.shape == shape:
            return self._row(array)[None], True
        if array.shape[1:] == shape and array.ndim == len(shape) + 1 and len(array):
            return np.stack([self._row(o) for o in array]), False
        raise InvalidInputError(
            f"an observation of shape {array.shape}: {self.spec.env_id} has {shape}, "
            f"or (n, *{shape}) for n at once"
        )

    def _row(self, observation: Any) -> np.ndarray:
        space = self.observation_space
        if finite_shape(space) is not None and not space.contains(_plain(observation, space)):
            raise InvalidInputError(f"{observation!r} is not an observation of {space}")
        return to_row(space, observation)


def save_agents(path: Path, training: Training) -> None:
    """The acting networks of all seeds in one file, atomically."""
    header = AgentHeader(
        config=training.config, seeds=list(training.seeds), summary=training.summary()
    )
    state = training.state
    write_checkpoint(path, _KIND, (state.ema_network, state.normalisation), header)


def _plain(observation: Any, space: gym.Space) -> Any:
    return int(observation) if isinstance(space, gym.spaces.Discrete) else observation


def _like(header: AgentHeader) -> Any:
    learner, _ = make_learner(header.config)
    network = learner.model.network(jax.random.key(0))
    scaler = ObservationScaler.identity(learner.encoder)
    tree = (network, Normalisation(scaler, Support.fixed(0.0, 1.0)))
    n = len(header.seeds)
    return jax.tree.map(lambda a: jnp.zeros((n, *a.shape), a.dtype), tree)
