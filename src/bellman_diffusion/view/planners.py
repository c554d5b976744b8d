"""An episode of the policy that a planner knows the returns of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellman_diffusion.bellman.environments import make_env
from bellman_diffusion.bellman.mdp import FiniteMDP
from bellman_diffusion.bellman.observations import to_row
from bellman_diffusion.bellman.planner import Planner
from bellman_diffusion.bellman.policies import as_action, load_policy, tabular_policy
from bellman_diffusion.bellman.tables import finite_mdp
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.view.episode import BAND, LONGEST, N_POINTS, WORST, Episode, Laws
from bellman_diffusion.view.lookahead import (
    Outcome,
    look_ahead,
    simulated_outcomes,
    table_outcomes,
)

# Fine enough for the worst share's mean; the page gets every so many points.
_FINER = 8


def record_planner(run: Path, seed: int, steps: int) -> Episode:
    """An episode of the planner's policy: `steps` steps in full, the others' rewards."""
    planner = Planner.load(run)
    meta = planner.meta
    env = make_env(meta["env_id"], **(meta["env_options"] | {"render_mode": "rgb_array"}))
    mdp = _table(env)
    # Without a table: a second one, never drawn, that can be copied to look ahead.
    twin = make_env(meta["env_id"], **meta["env_options"]) if mdp is None else None
    act = _policy(planner, env, mdp, seed)
    observation, _ = env.reset(seed=seed)
    if twin is not None:
        twin.reset(seed=seed)
    frames, seen, actions, rewards = [], [], [], []
    outcomes: list[list[list[Outcome]] | None] = []
    terminated = over = False
    for t in range(LONGEST):
        action = act(observation)
        if t < steps:
            picture = env.render()
            if not isinstance(picture, np.ndarray):
                raise InvalidInputError(f"{meta['env_id']} cannot be drawn as rgb_array")
            frames.append(picture)
            seen.append(observation)
            actions.append(_number(env, action))
            if twin is not None:
                outcomes.append(simulated_outcomes(twin))
            elif mdp is not None:
                state = int(to_row(planner.space, observation)[0])
                outcomes.append(table_outcomes(mdp, planner.space, state))
        observation, reward, terminated, truncated, _ = env.step(action)
        if twin is not None:
            twin.step(action)
        rewards.append(float(reward))
        over = bool(terminated or truncated)
        if over:
            break
    env.close()
    if twin is not None:
        twin.close()
    return Episode(
        name=meta["kind"] if meta["kind"] != "table" else "planner",
        env_id=meta["env_id"],
        gamma=meta["gamma"],
        frames=frames,
        actions=actions,
        rewards=rewards,
        terminated=bool(terminated),
        laws=_laws(planner, seen, outcomes),
        note=f"{meta['policy']} policy"
        + (f", {meta['epsilon']:.0%} random actions" if meta["epsilon"] else "")
        + f"; returns are smoothed by σ = {meta['sigma']:.3g}",
        over=over,
    )


def _laws(planner: Planner, seen: list[Any], outcomes: list[Any]) -> Laws:
    states = planner.distribution(seen)
    fine = np.linspace(*_reach(planner, states, outcomes), _FINER * (N_POINTS - 1) + 1)
    fine = fine.astype(np.float32)
    low, high = np.asarray(states.quantile(np.array(BAND, np.float32)), float).T
    expected = np.asarray(states.mean(), float)
    if any(actions is None for actions in outcomes):
        points = jnp.asarray(fine)
        density = np.asarray(states.pdf(points), float)[:, None]
        gradient = np.asarray(states.gradient(points), float)[:, None]
        mean, cvar = expected[:, None], np.asarray(states.cvar(WORST), float)[:, None]
    else:
        ahead = look_ahead(planner, outcomes, fine)
        density, gradient, mean = (np.stack(part) for part in zip(*ahead, strict=True))
        cvar = worst_mean(fine, density, WORST)
    kept = slice(None, None, _FINER)
    return Laws(
        fine[kept], density[..., kept], gradient[..., kept], mean, cvar, expected, low, high
    )


def _reach(planner: Planner, states: Any, outcomes: list[Any]) -> tuple[float, float]:
    """The returns that any action may lead to, not only those of the policy."""
    low, high = float(states.low), float(states.high)
    gamma, room = planner.meta["gamma"], 4 * planner.meta["sigma"]
    lows, highs = [low], [high]
    for outcome in (o for actions in outcomes if actions for one in actions for o in one):
        goes_on = outcome.observation is not None
        lows.append(outcome.reward + (gamma * low if goes_on else -room))
        highs.append(outcome.reward + (gamma * high if goes_on else room))
    return min(lows), max(highs)


def worst_mean(
    x: Float[np.ndarray, " points"], density: Float[np.ndarray, "... points"], share: float
) -> Float[np.ndarray, "..."]:
    """CVaR of densities on a grid: the mean of the worst `share`."""
    mass = np.maximum(density, 0)
    with np.errstate(invalid="ignore"):
        mass = mass / mass.sum(axis=-1, keepdims=True)
    before = np.cumsum(mass, axis=-1) - mass
    taken = np.clip(share - before, 0, mass)
    return (taken * x).sum(axis=-1) / share


def _table(env: gym.Env) -> FiniteMDP | None:
    try:
        return finite_mdp(env)
    except InvalidInputError:
        return None


def _policy(
    planner: Planner, env: gym.Env, mdp: FiniteMDP | None, seed: int
) -> Callable[[Any], Any]:
    meta = planner.meta
    if mdp is None:
        return load_policy(meta["policy"], env, seed, meta["epsilon"])
    table = tabular_policy(meta["policy"], mdp, env, meta["gamma"], meta["epsilon"])
    rng = np.random.default_rng(seed)

    def act(observation: Any) -> Any:
        return as_action(env, table[int(to_row(planner.space, observation)[0])], rng)

    return act


def _number(env: gym.Env, action: Any) -> int:
    """Counted from 0; a continuous action has none."""
    space = env.action_space
    return int(action) - int(space.start) if isinstance(space, gym.spaces.Discrete) else 0
