"""Any Gymnasium environment with discrete actions, stepped by the host for all seeds at once.

Every episode is started with a seed of its own, and the actions since its start are kept: a resumed run
starts the same episodes again, repeats the actions, and is where it was.
"""

from typing import Any, NamedTuple

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from bellman_diffusion.environments.base import EnvSpec
from bellman_diffusion.environments.make import make_env
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.observations import ObservationEncoder, to_row

# Actions that are kept where an environment has no time limit.
_LONGEST = 10_000


class EpisodeMemory(NamedTuple):
    """Which episode each environment is in, and what was done in it: all that a resume needs."""

    episode: Int[Any, "seed env"]
    length: Int[Any, "seed env"]
    actions: Int[Any, "seed env step"]


class HostStep(NamedTuple):
    """One step of every environment, as arrays over (seed, env)."""

    next_observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    ended: np.ndarray


class HostEnvironments:
    """A grid of environments, one row a seed."""

    def __init__(
        self,
        spec: EnvSpec,
        encoder: ObservationEncoder,
        seeds: tuple[int, ...],
        n_envs: int,
        purpose: int = 0,
    ) -> None:
        self.spec = spec
        self._seeds, self._n_envs, self._purpose = seeds, n_envs, purpose
        self._envs = [[make_env(spec.env_id, **spec.options) for _ in range(n_envs)] for _ in seeds]
        shape = (len(seeds), n_envs)
        self._episode = np.zeros(shape, np.int64)
        self._actions: list[list[list[int]]] = [[[] for _ in range(n_envs)] for _ in seeds]
        self.observation = np.zeros((*shape, *encoder.shape), np.float32)
        for i, j in np.ndindex(*shape):
            self._start(i, j)

    @property
    def _limit(self) -> int:
        return self.spec.time_limit or _LONGEST

    def memory(self) -> EpisodeMemory:
        """For a checkpoint."""
        shape = self._episode.shape
        length = np.zeros(shape, np.int32)
        actions = np.zeros((*shape, self._limit), np.int32)
        for i, j in np.ndindex(*shape):
            done = self._actions[i][j][: self._limit]
            length[i, j] = len(done)
            actions[i, j, : len(done)] = done
        episode = jnp.asarray(self._episode, jnp.int32)
        return EpisodeMemory(episode, jnp.asarray(length), jnp.asarray(actions))

    def restore(self, memory: EpisodeMemory) -> None:
        """Go to where a checkpoint was, by repeating its actions."""
        episode, length, actions = (np.asarray(a) for a in memory)
        for i, j in np.ndindex(*episode.shape):
            self._episode[i, j] = episode[i, j]
            self._start(i, j)
            for action in actions[i, j, : length[i, j]]:
                observation, *_ = self._envs[i][j].step(int(action) + self.spec.first_action)
                self._actions[i][j].append(int(action))
                self.observation[i, j] = self._row(observation)

    def step(self, actions: Int[np.ndarray, "seed env"]) -> HostStep:
        """Step every environment; ended ones start again. `next_observation` is never a reset's."""
        shape = self._episode.shape
        next_observation = np.zeros_like(self.observation)
        reward, terminated, ended = (np.zeros(shape, np.float32) for _ in range(3))
        for i, j in np.ndindex(*shape):
            action = int(actions[i, j])
            seen, r, stop, cut, _ = self._envs[i][j].step(action + self.spec.first_action)
            next_observation[i, j] = self._row(seen)
            reward[i, j], terminated[i, j], ended[i, j] = _number(r), stop, stop or cut
            if stop or cut:
                self._episode[i, j] += 1
                self._start(i, j)
            else:
                self._actions[i][j].append(action)
                self.observation[i, j] = next_observation[i, j]
        return HostStep(next_observation, reward, terminated, ended)

    def start_again(self, episode: int) -> None:
        """Begin the episode with this number everywhere."""
        for i, j in np.ndindex(*self._episode.shape):
            self._episode[i, j] = episode
            self._start(i, j)

    def close(self) -> None:
        """Close all environments."""
        for row in self._envs:
            for env in row:
                env.close()

    def _start(self, i: int, j: int) -> None:
        key = (self._seeds[i], j, int(self._episode[i, j]), self._purpose)
        seed = int(np.random.SeedSequence(key).generate_state(1)[0] // 2)
        observation, _ = self._envs[i][j].reset(seed=seed)
        self._actions[i][j] = []
        self.observation[i, j] = self._row(observation)

    def _row(self, observation: Any) -> np.ndarray:
        return to_row(self.spec.observation_space, observation)


def host_spec(env: gym.Env, env_id: str, options: dict[str, Any]) -> EnvSpec:
    """What is known of a Gymnasium environment; an error where its actions cannot be chosen from."""
    space = env.action_space
    if not isinstance(space, gym.spaces.Discrete):
        raise InvalidInputError(
            f"{env_id} has the action space {space}: an agent chooses from a list of actions. Wrap the "
            "environment so that its action space is Discrete (gymnasium.ActionWrapper)."
        )
    return EnvSpec(
        env_id,
        env.observation_space,
        int(space.n),
        first_action=int(space.start),
        time_limit=getattr(env.spec, "max_episode_steps", None),
        solved_at=getattr(env.spec, "reward_threshold", None),
        options=options,
    )


def _number(reward: Any) -> float:
    if np.ndim(reward) != 0 or not np.isfinite(reward):
        raise InvalidInputError(f"the environment's reward {reward!r} is not a finite number")
    return float(reward)
