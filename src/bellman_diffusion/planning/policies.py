"""Policies by name, from a Python function, or from a file."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from jaxtyping import Float

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.mdp import FiniteMDP
from bellman_diffusion.returns.observations import finite_shape, from_index, to_row
from bellman_diffusion.returns.tabular_policies import (
    mix_with_random,
    optimal_policy,
    random_policy,
)

PolicyFunction = Callable[[Any], Any]
# The name of a policy that was given as a Python function.
GIVEN_POLICY = "given"


def tabular_policy(
    name: str, mdp: FiniteMDP, env: gym.Env | None, gamma: float, epsilon: float
) -> Float[np.ndarray, "states actions"]:
    """The policy as probabilities of actions; `epsilon` of them random."""
    if name == "optimal":
        policy = optimal_policy(mdp, gamma)
    elif name == "random":
        policy = random_policy(mdp)
    elif name.endswith(".npy"):
        policy = _from_array(Path(name), mdp)
    elif env is None:
        raise InvalidInputError(f"--policy {name}: a model needs optimal, random or a .npy table")
    else:
        policy = _ask_everywhere(load_policy(name, env), mdp, env)
    return mix_with_random(policy, epsilon, mdp)


def table_function(
    table: Float[np.ndarray, "states actions"], env: gym.Env, seed: int
) -> PolicyFunction:
    """A policy over states as a function of the observation."""
    rng = np.random.default_rng(seed)
    space = env.observation_space
    return lambda observation: as_action(env, table[int(to_row(space, observation)[0])], rng)


def load_policy(name: str, env: gym.Env, seed: int = 0, epsilon: float = 0.0) -> PolicyFunction:
    """A function from observation to action: `random`, `module:function`, or a Stable-Baselines3 zip.

    With `epsilon` a share of the actions is random.
    """
    if name == "optimal":
        raise InvalidInputError(
            "the optimal policy is known only for an environment with a transition table: give a "
            "policy as module:function, or the path of a Stable-Baselines3 zip"
        )
    if name == GIVEN_POLICY:
        raise InvalidInputError(
            "the policy was given as a Python function, which is not saved: plan again with a policy "
            "as module:function"
        )
    if name == "random":
        env.action_space.seed(seed)
        return lambda _: env.action_space.sample()
    policy = _from_zip(Path(name)) if name.endswith(".zip") else _from_module(name)
    return with_random(policy, env, seed, epsilon)


def with_random(
    policy: PolicyFunction, env: gym.Env, seed: int, epsilon: float = 0.0
) -> PolicyFunction:
    """The policy's own actions, but for a share `epsilon` of random ones."""
    if not 0 <= epsilon <= 1:
        raise InvalidInputError(f"epsilon is {epsilon}: it must be in [0, 1]")
    rng = np.random.default_rng(seed)
    env.action_space.seed(seed)

    def act(observation: Any) -> Any:
        if epsilon and rng.uniform() < epsilon:
            return env.action_space.sample()
        try:
            chosen = policy(observation)
        except Exception as error:
            raise InvalidInputError(f"the policy failed on {observation!r}: {error!r}") from error
        return as_action(env, chosen, rng)

    return act


def as_action(env: gym.Env, chosen: Any, rng: np.random.Generator) -> Any:
    """What a policy returned as an action; for a discrete space it may be probabilities."""
    if isinstance(env.action_space, gym.spaces.Discrete):
        if np.ndim(chosen) == 1 and np.size(chosen) == env.action_space.n and np.size(chosen) > 1:
            p = np.asarray(chosen, float)
            return int(rng.choice(len(p), p=p / p.sum())) + int(env.action_space.start)
        if np.ndim(chosen) == 0 and float(chosen) == int(chosen):
            return int(chosen)
    elif np.ndim(chosen) == 0 or isinstance(chosen, int | np.integer):
        raise InvalidInputError(
            f"the policy returned {chosen!r}, but the environment's actions are {env.action_space}: "
            "a discrete policy does not fit it. Return an array of that shape."
        )
    elif isinstance(env.action_space, gym.spaces.Box):
        return np.asarray(chosen, env.action_space.dtype)
    return chosen


def _from_module(name: str) -> PolicyFunction:
    module_name, _, function = name.partition(":")
    if not function:
        raise InvalidInputError(
            f"--policy {name!r} is not known: use optimal, random, module:function, "
            "a .npy table or a Stable-Baselines3 .zip"
        )
    # As with `python -m`: modules in the working folder are found.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module_name), function)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(f"--policy {name}: {error}") from error
    if not callable(found):
        raise InvalidInputError(f"--policy {name} is not a function of the observation")
    return found


def _from_zip(path: Path) -> PolicyFunction:
    if not path.exists():
        raise InvalidInputError(f"--policy {path}: there is no such file")
    try:
        sb3 = importlib.import_module("stable_baselines3")
    except ImportError as error:
        raise InvalidInputError(
            f"{path} is a Stable-Baselines3 policy: install that package to use it "
            "(pip install stable-baselines3)"
        ) from error
    # The file does not name its algorithm; only the right one's networks fit the weights.
    for kind in ("PPO", "DQN", "SAC", "TD3", "A2C", "DDPG"):
        try:
            model = getattr(sb3, kind).load(path, device="cpu")
        except Exception:  # (whatever a foreign loader raises: not this algorithm)
            continue
        return lambda observation: model.predict(observation, deterministic=True)[0]
    raise InvalidInputError(f"{path} is not a policy that this Stable-Baselines3 can load")


def _from_array(path: Path, mdp: FiniteMDP) -> np.ndarray:
    try:
        table = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"--policy {path}: {error}") from error
    if table.shape == (mdp.n_states,) and np.all(np.isin(table, np.arange(mdp.n_actions))):
        return np.eye(mdp.n_actions)[table.astype(int)]
    if table.shape != (mdp.n_states, mdp.n_actions) or not np.allclose(table.sum(1), 1):
        raise InvalidInputError(
            f"--policy {path}: an array of {mdp.n_states} actions, or of {mdp.n_states} × "
            f"{mdp.n_actions} probabilities, is needed; its shape is {table.shape}"
        )
    return np.asarray(table, float)


def _ask_everywhere(policy: PolicyFunction, mdp: FiniteMDP, env: gym.Env) -> np.ndarray:
    table = np.zeros((mdp.n_states, mdp.n_actions))
    n_observed = int(np.prod(finite_shape(env.observation_space) or (mdp.n_states,)))
    for state in range(mdp.n_states):
        # States beyond the observations look like the last hand dealt; see `blackjack`.
        observation = from_index(env.observation_space, min(state, n_observed - 1))
        if state >= n_observed:
            observation = (21, state - n_observed + 1, 1)
        chosen = np.asarray(policy(observation))
        if chosen.ndim == 1 and chosen.size == mdp.n_actions and mdp.n_actions > 1:
            table[state] = chosen / chosen.sum()
            continue
        if chosen.ndim != 0 or chosen != int(chosen) or not 0 <= int(chosen) < mdp.n_actions:
            raise InvalidInputError(
                f"the policy returned {chosen.tolist()!r} for {observation!r}: return an action from 0 "
                f"to {mdp.n_actions - 1}, or {mdp.n_actions} probabilities"
            )
        table[state, int(chosen)] = 1
    return table
