"""Tasks of policy evaluation: an environment, a policy of medium quality, and its true returns."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import numpy as np
from jaxtyping import Bool, Float

from bellman_diffusion.environments import finite_mdp, make_env
from bellman_diffusion.errors import BellmanError
from bellman_diffusion.planning.acting import ActingPolicy, acting, table_policy
from bellman_diffusion.planning.sampling import Sampler
from bellman_diffusion.planning.transitions import NEGLIGIBLE, Returns, Transitions, partial_returns
from bellman_diffusion.returns.tabular_policies import optimal_policy

# Of a return that was cut off, to be used all the same.
_MOST_UNKNOWN = 0.5


class Task(NamedTuple):
    """An environment, how its policy is trained, and how it acts."""

    env_id: str
    algorithm: str
    """Of Stable-Baselines3, with its default settings; or `optimal`, for a table."""
    steps: int
    """Of training: short, so that the policy is of medium quality."""
    gamma: float = 0.99
    stochastic: bool = False
    """Whether actions are sampled, as in a log."""

    @property
    def is_table(self) -> bool:
        """Whether the policy is found from a table."""
        return self.algorithm == "optimal"

    @property
    def horizon(self) -> int:
        """Steps after which what is left of a return is negligible."""
        return int(np.ceil(np.log(NEGLIGIBLE) / np.log(self.gamma)))


TASKS = {
    "CartPole": Task("CartPole-v1", "PPO", 15_000),
    "Acrobot": Task("Acrobot-v1", "PPO", 40_000, stochastic=True),
    "LunarLander": Task("LunarLander-v3", "PPO", 150_000),
    "Pendulum": Task("Pendulum-v1", "SAC", 4_000),
    "Hopper": Task("Hopper-v5", "PPO", 100_000),
    "HalfCheetah": Task("HalfCheetah-v5", "PPO", 100_000, stochastic=True),
    "Reacher log": Task("Reacher-v5", "PPO", 60_000, gamma=0.95, stochastic=True),
    "FrozenLake": Task("FrozenLake8x8-v1", "optimal", 0),
}


def trained(task: Task, path: Path, seed: int) -> None:
    """Write the policy's zip, unless it is there."""
    if task.is_table or path.exists():
        return
    try:
        import stable_baselines3  # noqa: PLC0415 (an extra, and slow to import)
        import torch  # noqa: PLC0415

        torch.set_num_threads(1)
        algorithm = getattr(stable_baselines3, task.algorithm)
        model = algorithm("MlpPolicy", make_env(task.env_id), seed=seed, device="cpu")
        model.learn(task.steps)
    except (ImportError, gym.error.DependencyNotInstalled) as error:
        raise BellmanError(
            f"the policy of {task.env_id} cannot be trained: {error}. Install the packages of this "
            "experiment: pip install 'bellman-diffusion[evaluation]'"
        ) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: a stopped run finds it, or trains again.
    unfinished = path.with_suffix(".tmp.zip")
    model.save(unfinished)
    unfinished.replace(path)


def sampled(task: Task, policy: Path, n: int, seed: int) -> Transitions:
    """Transitions as a user would have them: within the environment's time limit."""
    return _sampler(task, policy, seed, partial(make_env, task.env_id)).transitions(n, seed)


def true_returns(task: Task, policy: Path, n: int, seed: int) -> Returns:
    """Returns from n fresh starts, in random order, played on until what is left is negligible."""
    make = partial(make_env, task.env_id, max_episode_steps=task.horizon)
    found = _sampler(task, policy, seed, make).returns_of_starts(n, task.gamma, seed)
    # Short episodes are over first.
    order = np.random.default_rng(seed).permutation(len(found.value))
    return Returns(
        found.observation[order], found.value[order], found.starts[order], found.slack[order]
    )


def seen_returns(
    transitions: Transitions, gamma: float
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Of each row the return as its episode tells it, which rows to use, and which of them are starts.

    What was cut off counts as what was seen, in proportion.
    """
    value, unknown = partial_returns(transitions, gamma)
    kept = unknown <= _MOST_UNKNOWN
    first = np.concatenate([[True], transitions.ended[:-1] > 0])
    return value / np.where(kept, 1 - unknown, 1), kept, kept & first


def _sampler(task: Task, policy: Path, seed: int, make: Callable[[], gym.Env]) -> Sampler:
    env = make()
    acts: ActingPolicy = (
        table_policy(optimal_policy(finite_mdp(env), task.gamma), env, seed)
        if task.is_table
        else acting(str(policy), env, seed, stochastic=task.stochastic)
    )
    return Sampler(make, acts)
