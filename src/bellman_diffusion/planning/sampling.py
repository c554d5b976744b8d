"""Episodes of a policy, many environments at a time, by Gymnasium's vector API."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.acting import ActingPolicy
from bellman_diffusion.planning.transitions import NEGLIGIBLE, Discount, Returns, Transitions
from bellman_diffusion.planning.vector_rewards import VectorRewards
from bellman_diffusion.returns.observations import compact, timed, timed_space, to_row, to_rows

Report = Callable[[int, int], None]
# Observation, reward, next observation, whether the episode ends, whether it ends or is truncated.
Row = tuple[np.ndarray, Any, np.ndarray, bool, bool]
# The environments, observations, rewards, next observations, and what else is known of a step.
Step = tuple[SyncVectorEnv, Any, np.ndarray, Any, dict[str, Any]]
# Environments that are stepped together: a policy's network then reads as many observations at once.
_MOST_AT_ONCE = 16
_MOST_FOR_RETURNS = 64
# Rows of each environment, where there are more than one.
_LEAST_ROWS = 500


class Sampler(NamedTuple):
    """How an environment is made, and the policy that acts in it."""

    make: Callable[[], gym.Env]
    policy: ActingPolicy
    limit: int | None = None
    """With a limit an episode ends after so many steps, and observations tell how many have passed."""

    def transitions(self, n: int, seed: int, report: Report | None = None) -> Transitions:
        """n transitions; the episodes that are not over by then are cut off."""
        n_envs = int(np.clip(n // _LEAST_ROWS, 1, _MOST_AT_ONCE))
        tracks: list[list[Row]] = [[] for _ in range(n_envs)]
        count = 0
        for step in self._steps(n_envs, seed):
            for track, row in zip(tracks, step, strict=True):
                if count < n:
                    track.append(row)
                    count += 1
            if report is not None:
                report(count, n)
            if count == n:
                break
        cut = [[*track[:-1], (*track[-1][:4], True)] for track in tracks if track]
        return _stacked([row for track in cut for row in track])

    def episodes(self, n: int, seed: int, report: Report | None = None) -> Transitions:
        """n episodes, each to its end.

        Each environment plays as many as was fixed before: none is left out because it is long.
        """
        n_envs = min(n, _MOST_AT_ONCE)
        due = [n // n_envs + (i < n % n_envs) for i in range(n_envs)]
        tracks: list[list[Row]] = [[] for _ in range(n_envs)]
        for step in self._steps(n_envs, seed):
            for i, row in enumerate(step):
                if due[i]:
                    tracks[i].append(row)
                    due[i] -= row[-1]
            if report is not None:
                report(n - sum(due), n)
            if not any(due):
                break
        return _stacked([row for track in tracks for row in track])

    def returns_of_starts(self, n: int, gamma: Discount, seed: int) -> Returns:
        """The returns of n episodes and the observations they start from: no other row is kept."""
        n_envs = min(n, _MOST_FOR_RETURNS)
        due = np.array([n // n_envs + (i < n % n_envs) for i in range(n_envs)])
        time, shape = np.zeros(n_envs, int), (n_envs, *np.shape(gamma))
        total, discount = np.zeros(shape), np.ones(shape)
        first: list[np.ndarray] = []
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for envs, now, reward, later, info in self._played(n_envs, seed):
            first = first or self._stored(envs, now, time)
            total, discount = total + discount * reward, discount * gamma
            terminated, truncated = info["terminated"], info["truncated"]
            over = np.flatnonzero(terminated | truncated)
            fresh = self._stored(envs, later, time) if over.size else []
            for i in over:
                if due[i]:
                    rest = discount[i] * (not terminated[i] and not self.limit)
                    found.append((first[i], total[i].copy(), rest))
                    due[i] -= 1
                first[i], total[i], discount[i] = fresh[i], 0.0, 1.0
            if not due.any():
                break
        observation, value, rest = (np.array(column) for column in zip(*found, strict=True))
        slack = rest * np.abs(value).max(axis=0, initial=0.0)
        every = Returns(observation, value, np.ones(n, bool), slack)
        return every.chosen(np.all(rest.reshape(n, -1) <= NEGLIGIBLE, axis=1))

    def _steps(self, n_envs: int, seed: int) -> Iterator[list[Row]]:
        """A row of each environment at every step, for ever."""
        time = np.zeros(n_envs, int)
        now: list[np.ndarray] = []
        for envs, observation, reward, after, info in self._played(n_envs, seed):
            now = now or self._stored(envs, observation, time)
            terminated, over = info["terminated"], info["terminated"] | info["truncated"]
            time = time + 1
            end = terminated if self.limit is None else over
            later = self._stored(envs, after, time)
            # An environment that is over shows its next start already; its last row is elsewhere.
            reached = list(later)
            for i in np.flatnonzero(over):
                reached[i] = self._row(envs, info["final_obs"][i], int(time[i]))
            yield [
                (now[i], reward[i], reached[i], bool(end[i]), bool(over[i])) for i in range(n_envs)
            ]
            time = np.where(over, 0, time)
            now = later if not over.any() else self._stored(envs, after, time)

    def _played(self, n_envs: int, seed: int) -> Iterator[Step]:
        """The policy acts in all environments at once, for ever."""
        envs = SyncVectorEnv([self.make] * n_envs, autoreset_mode=AutoresetMode.SAME_STEP)
        space = envs.single_action_space
        try:
            now, _ = envs.reset(seed=seed)
            fresh = np.ones(n_envs, bool)
            while True:
                actions = self.policy.actions(now, fresh)
                batch = concatenate(space, actions, create_empty_array(space, n_envs))
                later, reward, terminated, truncated, info = _step(envs, batch)
                yield envs, now, reward, later, info | {
                    "terminated": terminated, "truncated": truncated,
                }  # fmt: skip
                now, fresh = later, terminated | truncated
        finally:
            envs.close()

    def _stored(self, envs: SyncVectorEnv, observations: Any, time: np.ndarray) -> list[np.ndarray]:
        """A batch of observations as rows."""
        space = envs.single_observation_space
        if self.limit is None and isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
            return list(compact(space, to_rows(space, observations)))
        if isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
            # As `flatten` has them: states are one-hot, and the time comes last.
            if isinstance(space, gym.spaces.Discrete):
                rows = np.zeros((len(time), int(space.n)), np.float32)
                rows[np.arange(len(time)), observations - space.start] = 1
            else:
                rows = to_rows(space, observations).reshape(len(time), -1)
            return list(np.column_stack([rows, (time / self.limit).astype(np.float32)]))
        each = iterate(envs.observation_space, observations)
        return [self._row(envs, o, int(t)) for o, t in zip(each, time, strict=True)]

    def _row(self, envs: SyncVectorEnv, observation: Any, time: int) -> np.ndarray:
        space = envs.single_observation_space
        if self.limit is None:
            return compact(space, to_row(space, observation))
        return to_row(timed_space(space), timed(observation, time / self.limit))


def _step(envs: SyncVectorEnv, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """One step of all, with checked rewards."""
    try:
        later, reward, terminated, truncated, info = envs.step(actions)
    except ValueError as error:
        if "sequence" not in str(error):
            raise
        raise InvalidInputError(
            "the environment's reward is a vector: such an environment tells its form as "
            "`reward_space`, as MO-Gymnasium's do"
        ) from error
    if isinstance(envs.envs[0], VectorRewards):
        reward = np.stack([env.get_wrapper_attr("rewards") for env in envs.envs])
    bad = ~np.isfinite(reward)
    if bad.any():
        raise InvalidInputError(f"the environment's reward {reward[bad][0]} is not a finite number")
    return later, reward, terminated, truncated, info


def _stacked(rows: list[Row]) -> Transitions:
    observation, reward, next_observation, terminated, ended = zip(*rows, strict=True)
    numbers = (np.array(column, np.float32) for column in (reward, terminated, ended))
    reward, terminated, ended = numbers
    return Transitions(np.stack(observation), reward, np.stack(next_observation), terminated, ended)
