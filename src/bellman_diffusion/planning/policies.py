"""Policies of finite models: probabilities of actions in every state."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from jaxtyping import Float

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.acting import has_memory, load_policy
from bellman_diffusion.returns.mdp import FiniteMDP
from bellman_diffusion.returns.observations import finite_shape, from_index
from bellman_diffusion.returns.tabular_policies import (
    mix_with_random,
    optimal_policy,
    random_policy,
)


def tabular_policy(
    name: str, mdp: FiniteMDP, env: gym.Env | None, gamma: float, epsilon: float
) -> Float[np.ndarray, "states actions"]:
    """The policy as probabilities of actions; `epsilon` of them random."""
    if name == "optimal":
        policy = optimal_policy(mdp, gamma)
    elif name == "random":
        policy = random_policy(mdp)
    elif name.endswith(".npy"):
        policy = policy_from_array(Path(name), mdp.n_states, mdp.n_actions)
    elif env is None:
        raise InvalidInputError(f"--policy {name}: a model needs optimal, random or a .npy table")
    else:
        policy = _ask_everywhere(load_policy(name, env), mdp, env)
    return mix_with_random(policy, epsilon, mdp)


def policy_from_array(
    path: Path, n_states: int, n_actions: int, *, more_states: bool = False
) -> Float[np.ndarray, "states actions"]:
    """A .npy file of actions or of their probabilities; it may know `more_states` than there are."""
    try:
        table = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"--policy {path}: {error}") from error
    table = table[:n_states] if more_states and table.ndim else table
    if table.shape == (n_states,) and np.all(np.isin(table, np.arange(n_actions))):
        return np.eye(n_actions)[table.astype(int)]
    if table.shape != (n_states, n_actions) or not np.allclose(table.sum(1), 1):
        raise InvalidInputError(
            f"--policy {path}: an array of {n_states} actions, or of {n_states} × "
            f"{n_actions} probabilities, is needed; its shape is {table.shape}"
        )
    return np.asarray(table, float)


def _ask_everywhere(policy: Any, mdp: FiniteMDP, env: gym.Env) -> np.ndarray:
    if has_memory(policy):
        raise InvalidInputError(
            "a policy with a memory is not a function of the state: evaluate it from episodes, in "
            "Python by plan(settings, policy=…) with samples"
        )

    def ask(observation: Any) -> np.ndarray:
        try:
            if hasattr(policy, "predict"):
                return np.asarray(policy.predict(observation, deterministic=True)[0], float)
            if getattr(policy, "batched", False):
                return np.asarray(policy(np.asarray([observation]))[0], float)
            return np.asarray(policy(observation), float)
        except Exception as error:
            raise InvalidInputError(f"the policy failed on {observation!r}: {error!r}") from error

    table = np.zeros((mdp.n_states, mdp.n_actions))
    n_observed = int(np.prod(finite_shape(env.observation_space) or (mdp.n_states,)))
    for state in range(mdp.n_states):
        # States beyond the observations look like the last hand dealt; see `blackjack`.
        observation = from_index(env.observation_space, min(state, n_observed - 1))
        if state >= n_observed:
            observation = (21, state - n_observed + 1, 1)
        chosen = ask(observation)
        if chosen.ndim == 1 and chosen.size == mdp.n_actions and mdp.n_actions > 1:
            table[state] = chosen / chosen.sum()
            continue
        whole = chosen.ndim == 0 and np.isfinite(chosen) and chosen == int(chosen)
        if not whole or not 0 <= int(chosen) < mdp.n_actions:
            raise InvalidInputError(
                f"the policy returned {chosen.tolist()!r} for {observation!r}: return an action from 0 "
                f"to {mdp.n_actions - 1}, or {mdp.n_actions} probabilities"
            )
        table[state, int(chosen)] = 1
    return table
