"""A trained agent: what it does, and the laws of the returns that it expects."""

import os
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from bellman_diffusion.agents.algorithms.base import Frame
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.environments import EnvSpec, JaxEnvironment
from bellman_diffusion.agents.learner import Learner
from bellman_diffusion.agents.make import make_learner
from bellman_diffusion.agents.networks import Scaling
from bellman_diffusion.agents.support import Support
from bellman_diffusion.agents.train import Training
from bellman_diffusion.bellman.distribution import ReturnDistribution
from bellman_diffusion.bellman.environments import make_env
from bellman_diffusion.bellman.observations import finite_shape, to_row
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.training import read_checkpoint, write_checkpoint

AGENT_FILE = "agent.bellman"
_KIND = "agent"


class Agent:
    """The agent of one seed of a run. `predict` is Stable-Baselines3's."""

    def __init__(
        self, learner: Learner, spec: EnvSpec, network: Any, frame: Frame, meta: dict[str, Any]
    ) -> None:
        self.learner, self.spec = learner, spec
        self.network, self.frame = network, frame
        self.meta = meta
        self._greedy = eqx.filter_jit(learner.greedy)
        self._read = eqx.filter_jit(learner.read)
        self._rng = np.random.default_rng(0)

    @property
    def config(self) -> AgentConfig:
        """The settings that it was trained with."""
        return self.learner.config

    @property
    def observation_space(self) -> gym.Space:
        """Of its environment."""
        return self.spec.observation_space

    @classmethod
    def load(cls, run: str | os.PathLike[str], seed: int | None = None) -> "Agent":
        """From a run's folder: the seed with the best last judgement, or the one asked for."""
        path = Path(run)
        path = path / AGENT_FILE if path.is_dir() else path
        if not path.exists():
            raise InvalidInputError(
                f"{run} holds no agent ({AGENT_FILE}): train one by bellman train; where "
                "its training was stopped, run the same command again"
            )
        (networks, frames), meta = read_checkpoint(path, _KIND, _like)
        seeds = meta["seeds"]
        if seed is None:
            best = max(meta["summary"], key=lambda row: row["greedy_return"])
            seed = best["seed"]
        if seed not in seeds:
            raise InvalidInputError(f"{path} has the seeds {seeds}, not {seed}")
        place = seeds.index(seed)
        network, frame = jax.tree.map(lambda a: a[place], (networks, frames))
        learner, spec = _learner(meta)
        return cls(learner, spec, network, frame, meta | {"seed": seed})

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
        actions = np.asarray(self._greedy(self.network, self.frame, jnp.asarray(rows)))
        if not deterministic:
            random = self._rng.integers(0, self.spec.n_actions, actions.shape)
            deviates = self._rng.uniform(size=actions.shape) < self.config.epsilon_end
            actions = np.where(deviates, random, actions)
        actions = actions + self.spec.first_action
        return (int(actions[0]) if single else actions), state

    def returns(self, observation: Any) -> ReturnDistribution:
        """The laws of the discounted return: of each action, for each observation of a batch."""
        rows, single = self._rows(observation)
        readings = self._read(self.network, self.frame, jnp.asarray(rows))
        laws = self.learner.algorithm.laws(readings, self.frame)
        return laws[0] if single else laws

    def make_env(self, **options: Any) -> gym.Env:
        """The Gymnasium environment that it was trained on."""
        return make_env(self.spec.env_id, **(self.spec.options | options))

    def _rows(self, observation: Any) -> tuple[np.ndarray, bool]:
        space = self.spec.observation_space
        if isinstance(observation, dict | tuple):
            return self._row(observation)[None], True
        if (
            isinstance(observation, list)
            and observation
            and isinstance(observation[0], dict | tuple)
        ):
            return np.stack([self._row(o) for o in observation]), False
        array = np.asarray(observation)
        shape = tuple(space.shape or ())
        if array.shape == shape:
            return self._row(array)[None], True
        if array.shape[1:] == shape and array.ndim == len(shape) + 1 and len(array):
            return np.stack([self._row(o) for o in array]), False
        raise InvalidInputError(
            f"an observation of shape {array.shape}: {self.spec.env_id} has {shape}, "
            f"or (n, *{shape}) for n at once"
        )

    def _row(self, observation: Any) -> np.ndarray:
        if self.learner.reader.is_image:
            return np.asarray(observation, np.float32)
        space = self.spec.observation_space
        shape = finite_shape(space)
        if shape is not None and not space.contains(_plain(observation, space)):
            raise InvalidInputError(f"{observation!r} is not an observation of {space}")
        return to_row(space, observation)


def save_agents(path: Path, training: Training) -> None:
    """The acting networks of all seeds in one file, atomically."""
    meta = {
        "config": training.config.to_json(),
        "seeds": list(training.seeds),
        "summary": training.summary(),
    }
    write_checkpoint(path, _KIND, (training.state.average, training.state.frame), meta)


def _plain(observation: Any, space: gym.Space) -> Any:
    return int(observation) if isinstance(space, gym.spaces.Discrete) else observation


def _learner(meta: dict[str, Any]) -> tuple[Learner, EnvSpec]:
    learner, environment = make_learner(AgentConfig.from_json(meta["config"]))
    spec = environment.spec if isinstance(environment, JaxEnvironment) else environment
    return learner, spec


def _like(meta: dict[str, Any]) -> Any:
    learner, _ = _learner(meta)
    network = learner.algorithm.network(jax.random.key(0))
    frame = Frame(Scaling.none(learner.reader), Support.fixed(0.0, 1.0))
    n = len(meta["seeds"])
    return jax.tree.map(lambda a: jnp.zeros((n, *a.shape), a.dtype), (network, frame))
