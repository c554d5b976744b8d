"""Return distributions of single actions from a planner, which knows those of states: one step ahead.

An action leads with some probabilities to rewards and to states whose return distributions are known;
its own is the mixture of their Bellman backups.
"""

import copy
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellman_diffusion.planning.planner import Planner
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.mdp import FiniteMDP
from bellman_diffusion.returns.observations import finite_shape, from_index
from bellman_diffusion.view.episode import ALPHA

_COPIES = 8


class Outcome(NamedTuple):
    """What an action may lead to."""

    probability: float
    reward: float
    observation: Any
    """None where the episode ends."""


class Moment(NamedTuple):
    """The actions' densities and gradients on a grid, their means and CVaRs."""

    density: Float[np.ndarray, "actions points"]
    gradient: Float[np.ndarray, "actions points"]
    mean: Float[np.ndarray, " actions"]
    cvar: Float[np.ndarray, " actions"]


def table_outcomes(mdp: FiniteMDP, space: gym.Space, state: int) -> list[list[Outcome]]:
    """Every action's outcomes by the transition table."""
    n_observed = int(np.prod(finite_shape(space) or (mdp.n_states,)))
    found: list[list[Outcome]] = [[] for _ in range(mdp.n_actions)]
    for k in np.flatnonzero(mdp.state == state):
        next_state = int(mdp.next_state[k])
        over = bool(mdp.done[k]) or next_state >= n_observed
        seen = None if over else from_index(space, next_state)
        outcome = Outcome(float(mdp.probability[k]), float(mdp.reward[k, 0]), seen)
        found[int(mdp.action[k])].append(outcome)
    return found


def simulated_outcomes(env: gym.Env) -> list[list[Outcome]] | None:
    """Every action's outcomes in copies of the environment; None where it cannot be copied."""
    space = env.action_space
    if not isinstance(space, gym.spaces.Discrete):
        return None
    try:
        return [list(_tries(env, int(space.start) + a)) for a in range(int(space.n))]
    except Exception:  # (whatever a foreign environment raises when it is copied)
        return None


def _tries(env: gym.Env, action: int) -> Iterator[Outcome]:
    for k in range(_COPIES):
        twin = copy.deepcopy(env)
        # The copies would all draw the same numbers.
        twin.unwrapped.np_random = np.random.default_rng(k)
        observation, reward, terminated, _, _ = twin.step(action)
        yield Outcome(1 / _COPIES, float(reward), None if terminated else observation)


def look_ahead(
    planner: Planner,
    moments: Sequence[list[list[Outcome]]],
    x: Float[np.ndarray, " points"],
    sigma: float,
) -> list[Moment]:
    """The return distributions of every action at every moment, their densities smoothed by σ.

    One moment after the other: each outcome is a table of points by basis functions, and all of a long
    episode's at once would take gigabytes.
    """
    return [_moment(planner, actions, x, sigma) for actions in moments]


def _moment(
    planner: Planner, actions: list[list[Outcome]], x: Float[np.ndarray, " points"], sigma: float
) -> Moment:
    gamma = planner.header.gamma
    flat = [outcome for outcomes in actions for outcome in outcomes]
    goes_on = np.array([outcome.observation is not None for outcome in flat])
    reward = np.array([outcome.reward for outcome in flat])
    # Where the episode ends, the return is the reward, smoothed as all are.
    z = (x[None] - reward[:, None]) / sigma
    density = np.exp(-0.5 * z**2) / (sigma * np.sqrt(2 * np.pi))
    gradient = -z / sigma * density
    mean, ahead = reward.copy(), None
    if goes_on.any():
        ahead = planner.distribution([o.observation for o in flat if o.observation is not None])
        backup = BellmanBackup(jnp.asarray(reward[goes_on, None], jnp.float32), gamma)
        at = jnp.asarray(x[None], jnp.float32)
        # The backup narrows the noise by γ: it starts out wider.
        pdf, slope = (partial(f, sigma=sigma / gamma) for f in (ahead.pdf, ahead.gradient))
        density[goes_on] = np.asarray(backup.density(pdf)(at))
        gradient[goes_on] = np.asarray(backup.gradient(slope)(at))
        mean[goes_on] = np.asarray(backup.returns(ahead.mean()[:, None]))[:, 0]
    atoms, masses = _atoms(ahead, reward, goes_on, gamma)
    rows, place = [], 0
    for outcomes in actions:
        share = np.array([outcome.probability for outcome in outcomes])
        part = slice(place, place + len(outcomes))
        cvar = np.nan
        if atoms is not None:
            cvar = _cvar(atoms[part], share[:, None] * masses[part])
        rows.append(
            (share @ density[part], share @ gradient[part], float(share @ mean[part]), cvar)
        )
        place += len(outcomes)
    return Moment(*(np.stack(column) for column in zip(*rows, strict=True)))


def _atoms(
    ahead: ReturnDistribution | None, reward: np.ndarray, goes_on: np.ndarray, gamma: float
) -> tuple[Any, Any]:
    """Atoms and masses of every outcome's return; None where the planner's returns have no atoms."""
    if ahead is not None and not isinstance(ahead, AtomicReturn):
        return None, None
    k = 1 if ahead is None else ahead.mass.shape[-1]
    atoms, masses = np.repeat(reward[:, None], k, axis=1), np.full((len(reward), k), 1 / k)
    if ahead is not None:
        own = np.broadcast_to(np.asarray(ahead.atoms), ahead.mass.shape)
        atoms[goes_on] = BellmanBackup(reward[goes_on, None], gamma).returns(own)
        masses[goes_on] = ahead.mass
    return atoms, masses


def _cvar(atoms: np.ndarray, mass: np.ndarray) -> float:
    order = np.argsort(atoms, axis=None)
    x, m = atoms.ravel()[order], mass.ravel()[order]
    taken = np.clip(ALPHA - (np.cumsum(m) - m), 0, m)
    return float(taken @ x / ALPHA)
