"""An episode of the policy that a planner knows the returns of."""

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellman_diffusion.environments import find_mdp, is_model_file, make_env
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.acting import acting, table_policy
from bellman_diffusion.planning.certify import certified_distribution, certify
from bellman_diffusion.planning.header import CERTIFIED, TABLE
from bellman_diffusion.planning.planner import POLICY_FILE, Planner
from bellman_diffusion.planning.policies import tabular_policy
from bellman_diffusion.planning.risk_optimal import controlled_chain
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.mdp import FiniteMDP
from bellman_diffusion.returns.observations import to_row
from bellman_diffusion.view.episode import ALPHA, BAND, LONGEST, N_POINTS, ActionReturns, Episode
from bellman_diffusion.view.lookahead import Outcome, look_ahead, simulated_outcomes, table_outcomes

# Fine enough for CVaR; the page gets every so many points.
_FINER = 8
# Of the distances between points of the page: narrower peaks would fall between them.
_WIDEST = 1.5
_ROOM = 0.03
_PAGE_ACCURACY, _PAGE_MEMORY = 0.005, 1.0


def record_planner(planner: Planner, seed: int, steps: int) -> Episode:
    """An episode of the planner's policy: `steps` steps in full, the others' rewards."""
    h = planner.header
    if planner.is_vector:
        raise InvalidInputError(
            f"the return has {len(planner.components)} components: the page shows rewards that are "
            "numbers. The plan's report has each component"
        )
    if h.from_log:
        raise InvalidInputError(
            f"{h.env_id} is a log: there is no environment to play an episode in"
        )
    if is_model_file(h.env_id):
        raise InvalidInputError(
            f"{h.env_id} is a model without pictures: there is no episode to show"
        )
    env = make_env(h.env_id, **(h.env_options | {"render_mode": "rgb_array"}))
    play = _Play(planner, env, seed) if h.objective == "mean" else _StockPlay(planner, env)
    observation, _ = env.reset(seed=seed)
    frames, actions, rewards = [], [], []
    terminated = over = False
    while len(rewards) < LONGEST and not over:
        action = play.act(observation)
        if len(rewards) < steps:
            picture = env.render()
            if not isinstance(picture, np.ndarray):
                raise InvalidInputError(f"{h.env_id} cannot be drawn as rgb_array")
            frames.append(picture)
            actions.append(_number(env, action))
            play.show(observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        play.step(action, float(reward))
        rewards.append(float(reward))
        over = bool(terminated or truncated)
    env.close()
    play.close()
    return Episode(
        name=h.kind if h.kind not in (CERTIFIED, TABLE) else "planner",
        env_id=h.env_id,
        gamma=h.gamma,
        frames=frames,
        actions=actions,
        rewards=rewards,
        terminated=bool(terminated),
        returns=play.returns(),
        note=play.note + f"; densities are smoothed by σ = {h.sigma:.3g}",
        over=over,
        needed=play.needed,
    )


class _Play:
    """A policy of the observation, and what every action may lead to.

    That is known from the table, or from copies of a second environment.
    """

    needed: list[float] | None = None

    def __init__(self, planner: Planner, env: gym.Env, seed: int) -> None:
        h = planner.header
        self.planner, self.mdp = planner, find_mdp(env)
        self.act = _policy(planner, env, self.mdp, seed)
        self.note = f"{h.policy} policy"
        self.note += f", {h.epsilon:.0%} random actions" if h.epsilon else ""
        self._seen: list[Any] = []
        self._outcomes: list[list[list[Outcome]] | None] = []
        self._twin: gym.Env | None = None
        if self.mdp is None:
            # Never drawn, so that it can be copied.
            self._twin = make_env(h.env_id, **h.env_options)
            self._twin.reset(seed=seed)

    def show(self, observation: Any) -> None:
        """Keep what is known of where the episode is."""
        self._seen.append(observation)
        if self.planner.is_timed:
            self._outcomes.append(None)
        elif self.mdp is not None:
            space = self.planner.space
            state = int(to_row(space, observation)[0])
            self._outcomes.append(table_outcomes(self.mdp, space, state))
        else:
            self._outcomes.append(None if self._twin is None else simulated_outcomes(self._twin))

    def step(self, action: Any, reward: float) -> None:
        """Follow the episode."""
        del reward
        if self._twin is not None:
            self._twin.step(action)

    def close(self) -> None:
        """Close the second environment."""
        if self._twin is not None:
            self._twin.close()

    def returns(self) -> ActionReturns:
        """Of all that was shown."""
        states = self.planner.distribution(self._seen, elapsed=range(len(self._seen)))
        return _action_returns(self.planner, states, self._outcomes)


class _StockPlay:
    """A policy of state and stock: its return distributions are found again for the page."""

    def __init__(self, planner: Planner, env: gym.Env) -> None:
        h, mdp = planner.header, find_mdp(env)
        if planner.stock_policy is None or mdp is None:
            raise InvalidInputError(
                f"the policy for {h.objective} is missing: {POLICY_FILE} must stand beside the planner"
            )
        self.planner, self.policy = planner, planner.stock_policy
        self._start = int(getattr(env.action_space, "start", 0))
        controlled = controlled_chain(mdp, self.policy)
        with warnings.catch_warnings():
            # Where memory is short coarser cells serve the page.
            warnings.simplefilter("ignore", RuntimeWarning)
            self._certified = certify(
                controlled.chain, h.gamma, accuracy=_PAGE_ACCURACY, memory_gb=_PAGE_MEMORY
            )
        pairs = zip(controlled.state.tolist(), controlled.stock.tolist(), strict=True)
        self._row = {pair: row for row, pair in enumerate(pairs)}
        self._stock = self.policy.first
        self._rows: list[int] = []
        self.needed: list[float] | None = []
        self.note = f"policy for {h.objective}, which plays for a return of {self.policy.level:.4g}"

    def act(self, observation: Any) -> int:
        """By state and stock."""
        return int(self.policy.action[self._state(observation), self._stock]) + self._start

    def show(self, observation: Any) -> None:
        """Keep the pair, and the return that is still missing from here on."""
        assert self.needed is not None
        self._rows.append(self._row[self._state(observation), self._stock])
        self.needed.append(-(self.policy.low + self.policy.width * self._stock))

    def step(self, action: Any, reward: float) -> None:
        """Take up the reward."""
        del action
        self._stock = int(self.policy.next_stock(self._stock, reward))

    def close(self) -> None:
        """There is nothing to close."""

    def returns(self) -> ActionReturns:
        """Of the policy alone: other actions lead to pairs that it never meets."""
        states = certified_distribution(
            self._certified, np.array(self._rows), self.planner.header.sigma
        )
        return _action_returns(self.planner, states, [None] * len(self._rows))

    def _state(self, observation: Any) -> int:
        return int(to_row(self.planner.space, observation)[0])


def _action_returns(
    planner: Planner, states: ReturnDistribution, outcomes: list[Any]
) -> ActionReturns:
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


def _reach(
    planner: Planner, states: ReturnDistribution, outcomes: list[Any]
) -> tuple[float, float]:
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
        return acting(
            h.policy, env, seed, h.epsilon, stochastic=h.stochastic, normalize=h.normalize
        )
    return table_policy(tabular_policy(h.policy, mdp, env, h.gamma, h.epsilon), env, seed)


def _number(env: gym.Env, action: Any) -> int:
    """Counted from 0; a continuous action has none."""
    space = env.action_space
    return int(action) - int(space.start) if isinstance(space, gym.spaces.Discrete) else 0
