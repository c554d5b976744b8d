"""An episode of the policy that a planner knows the returns of."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellman_diffusion.environments import find_mdp, is_model_file, make_env
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.planner import CERTIFIED, TABLE, Planner
from bellman_diffusion.planning.policies import as_action, load_policy, tabular_policy
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.mdp import FiniteMDP
from bellman_diffusion.returns.observations import to_row
from bellman_diffusion.view.episode import ALPHA, BAND, LONGEST, N_POINTS, ActionReturns, Episode
from bellman_diffusion.view.lookahead import Outcome, look_ahead, simulated_outcomes, table_outcomes

# Fine enough for CVaR; the page gets every so many points.
_FINER = 8
# Of the distances between points of the page: narrower peaks would fall between them.
_WIDEST = 1.5
_ROOM = 0.03


def record_planner(planner: Planner, seed: int, steps: int) -> Episode:
    """An episode of the planner's policy: `steps` steps in full, the others' rewards."""
    h = planner.header
    if is_model_file(h.env_id):
        raise InvalidInputError(
            f"{h.env_id} is a model without pictures: there is no episode to show"
        )
    env = make_env(h.env_id, **(h.env_options | {"render_mode": "rgb_array"}))
    ahead = _OutcomesAhead(planner, env, seed)
    act = _policy(planner, env, ahead.mdp, seed)
    observation, _ = env.reset(seed=seed)
    frames, seen, actions, rewards = [], [], [], []
    outcomes: list[list[list[Outcome]] | None] = []
    terminated = over = False
    while len(rewards) < LONGEST and not over:
        action = act(observation)
        if len(rewards) < steps:
            picture = env.render()
            if not isinstance(picture, np.ndarray):
                raise InvalidInputError(f"{h.env_id} cannot be drawn as rgb_array")
            frames.append(picture)
            seen.append(observation)
            actions.append(_number(env, action))
            outcomes.append(ahead.of(observation))
        observation, reward, terminated, truncated, _ = env.step(action)
        ahead.step(action)
        rewards.append(float(reward))
        over = bool(terminated or truncated)
    env.close()
    ahead.close()
    return Episode(
        name=h.kind if h.kind not in (CERTIFIED, TABLE) else "planner",
        env_id=h.env_id,
        gamma=h.gamma,
        frames=frames,
        actions=actions,
        rewards=rewards,
        terminated=bool(terminated),
        returns=_action_returns(planner, seen, outcomes),
        note=f"{h.policy} policy"
        + (f", {h.epsilon:.0%} random actions" if h.epsilon else "")
        + f"; densities are smoothed by σ = {h.sigma:.3g}",
        over=over,
    )


class _OutcomesAhead:
    """What every action may lead to: by the table, or in copies of a second environment."""

    def __init__(self, planner: Planner, env: gym.Env, seed: int) -> None:
        self.mdp = find_mdp(env)
        self._space = planner.space
        self._twin: gym.Env | None = None
        if self.mdp is None:
            # Never drawn, so that it can be copied.
            self._twin = make_env(planner.header.env_id, **planner.header.env_options)
            self._twin.reset(seed=seed)

    def of(self, observation: Any) -> list[list[Outcome]] | None:
        """From where the episode is."""
        if self.mdp is not None:
            state = int(to_row(self._space, observation)[0])
            return table_outcomes(self.mdp, self._space, state)
        return None if self._twin is None else simulated_outcomes(self._twin)

    def step(self, action: Any) -> None:
        """Follow the episode."""
        if self._twin is not None:
            self._twin.step(action)

    def close(self) -> None:
        """Close the second environment."""
        if self._twin is not None:
            self._twin.close()


def _action_returns(planner: Planner, seen: list[Any], outcomes: list[Any]) -> ActionReturns:
    states = planner.distribution(seen)
    fine = np.linspace(*_reach(planner, states, outcomes), _FINER * (N_POINTS - 1) + 1)
    fine = fine.astype(np.float32)
    # As wide as the page can draw: it shows every so many points.
    sigma = max(planner.header.sigma, _WIDEST * _FINER * float(fine[1] - fine[0]))
    low, high = np.asarray(states.quantile(np.array(BAND, np.float32)), float).T
    expected = np.asarray(states.mean(), float)
    if any(actions is None for actions in outcomes):
        points = jnp.asarray(fine)
        density = np.asarray(states.pdf(points, sigma), float)[:, None]
        gradient = np.asarray(states.gradient(points, sigma), float)[:, None]
        mean, cvar = expected[:, None], np.asarray(states.cvar(ALPHA), float)[:, None]
    else:
        moments = look_ahead(planner, outcomes, fine, sigma)
        density, gradient, mean, cvar = (np.stack(part) for part in zip(*moments, strict=True))
        if np.isnan(cvar).any():
            cvar = grid_cvar(fine, density, ALPHA)
    kept = slice(None, None, _FINER)
    return ActionReturns(
        fine[kept], density[..., kept], gradient[..., kept], mean, cvar, expected, low, high
    )


def _reach(planner: Planner, states: Any, outcomes: list[Any]) -> tuple[float, float]:
    """The returns that any action may lead to, not only those of the policy."""
    low, high = float(states.low), float(states.high)
    gamma = planner.header.gamma
    lows, highs = [low], [high]
    for outcome in (o for actions in outcomes if actions for one in actions for o in one):
        backup = BellmanBackup(outcome.reward, 0.0 if outcome.observation is None else gamma)
        lows.append(backup.returns(low))
        highs.append(backup.returns(high))
    low, high = min(lows), max(highs)
    # Room for the smoothing of the density.
    room = max(4 * planner.header.sigma, _ROOM * (high - low))
    return low - room, high + room


def grid_cvar(
    x: Float[np.ndarray, " points"], density: Float[np.ndarray, "... points"], alpha: float
) -> Float[np.ndarray, "..."]:
    """CVaR of densities on a grid."""
    mass = np.maximum(density, 0)
    with np.errstate(invalid="ignore"):
        mass = mass / mass.sum(axis=-1, keepdims=True)
    before = np.cumsum(mass, axis=-1) - mass
    taken = np.clip(alpha - before, 0, mass)
    return (taken * x).sum(axis=-1) / alpha


def _policy(
    planner: Planner, env: gym.Env, mdp: FiniteMDP | None, seed: int
) -> Callable[[Any], Any]:
    h = planner.header
    if mdp is None:
        return load_policy(h.policy, env, seed, h.epsilon)
    table = tabular_policy(h.policy, mdp, env, h.gamma, h.epsilon)
    rng = np.random.default_rng(seed)

    def act(observation: Any) -> Any:
        return as_action(env, table[int(to_row(planner.space, observation)[0])], rng)

    return act


def _number(env: gym.Env, action: Any) -> int:
    """Counted from 0; a continuous action has none."""
    space = env.action_space
    return int(action) - int(space.start) if isinstance(space, gym.spaces.Discrete) else 0
