"""How right an agent's return laws are: against Monte-Carlo returns of its own policy."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from bellman_diffusion.agents.algorithms.base import Frame
from bellman_diffusion.agents.learner import JaxLearner
from bellman_diffusion.bellman.distribution import ReturnDistribution
from bellman_diffusion.bellman.mixture import MixtureReturn
from bellman_diffusion.bellman.tabulated import TabulatedReturn

# Rewards that are discounted to this share of the first are left out.
_NEGLIGIBLE = 1e-3
_GRID = 2000


class Judged(NamedTuple):
    """Laws at some states, and returns that followed from there."""

    observations: Float[np.ndarray, "states *shape"]
    laws: ReturnDistribution
    """Of the greedy actions."""
    returns: Float[np.ndarray, "states rollouts"]

    def w1(self) -> Float[np.ndarray, " states"]:
        """Wasserstein-1 between each law and its returns, as numbers of the return.

        Sums of Gaussians are judged by their centres alone: widths that only make a picture smooth
        count against nobody.
        """
        laws = self.laws
        low = min(float(laws.low), float(self.returns.min()))
        high = max(float(laws.high), float(self.returns.max()))
        x = np.linspace(low, high, _GRID).astype(np.float32)
        predicted = np.asarray(_with_width(laws, (high - low) / _GRID).cdf(jnp.asarray(x)))
        ordered = np.sort(self.returns, axis=1)
        seen = np.stack([np.searchsorted(row, x, side="right") for row in ordered])
        return np.trapezoid(np.abs(predicted - seen / ordered.shape[1]), x, axis=1)

    def field_errors(
        self, width: float
    ) -> tuple[Float[np.ndarray, " states"], Float[np.ndarray, " states"]]:
        """∫ |s − s*| / ∫ |s*| and the same of g, the true fields being those of returns + N(0, width²).

        Sums of Gaussians take the same width. Other laws are smoothed by it: what they smoothed
        already, as the paper's networks did with the ends, is theirs and not in the true fields.
        """
        laws = _with_width(self.laws, width)
        if isinstance(laws, TabulatedReturn):
            laws = laws.smoothed(width)
        n = self.returns.shape[1]
        true = MixtureReturn(
            jnp.full(self.returns.shape, 1 / n, jnp.float32),
            jnp.asarray(self.returns, jnp.float32),
            jnp.asarray(width, jnp.float32),
        )
        low, high = min(laws.low, true.low), max(laws.high, true.high)
        x = jnp.linspace(low, high, _GRID)
        errors = [
            np.abs(a - b).sum(axis=1) / np.abs(b).sum(axis=1)
            for a, b in (
                (np.asarray(laws.pdf(x), float), np.asarray(true.pdf(x), float)),
                (np.asarray(laws.gradient(x), float), np.asarray(true.gradient(x), float)),
            )
        ]
        return errors[0], errors[1]


def _with_width(laws: ReturnDistribution, width: float) -> ReturnDistribution:
    """A sum of Gaussians with this width of each; other laws as they are."""
    if not isinstance(laws, MixtureReturn):
        return laws
    return MixtureReturn(laws.coefficients, laws.centres, jnp.asarray(width, jnp.float32))


def judge_laws(
    whole: JaxLearner,
    key: Key[Array, ""],
    network: Any,
    frame: Frame,
    n_states: int = 20,
    n_rollouts: int = 32,
) -> Judged:
    """From states met on greedy episodes, one an episode at a time drawn evenly over its length."""
    limit = whole.environment.spec.time_limit or 1000
    start_key, roll_key = jax.random.split(key)
    met = _met(whole, start_key, network, frame, n_states, limit)
    return judge_states(whole, roll_key, network, frame, met, n_rollouts)


def judge_states(
    whole: JaxLearner,
    key: Key[Array, ""],
    network: Any,
    frame: Frame,
    start: tuple[Any, Array],
    n_rollouts: int = 32,
) -> Judged:
    """From given states and what is seen of them.

    Time limits are passed through: the laws are those of returns without them.
    """
    gamma = whole.config.gamma
    limit = whole.environment.spec.time_limit or 1000
    horizon = limit if gamma == 1 else int(np.ceil(np.log(_NEGLIGIBLE) / np.log(gamma)))
    seen = start[1]
    n_states = seen.shape[0]
    many = jax.tree.map(lambda a: jnp.repeat(a, n_rollouts, axis=0), start)
    returns = _followed(whole, key, network, frame, many, gamma, horizon)
    learner = whole.learner
    readings = learner.read(network, frame, seen)
    laws = learner.algorithm.laws(readings, frame)
    actions = learner.best(readings, frame)
    return Judged(
        observations=np.asarray(seen),
        laws=laws[jnp.arange(n_states), actions],
        returns=np.asarray(returns).reshape(n_states, n_rollouts),
    )


# Compiled once for an environment and a configuration, not for every seed that is judged.
@eqx.filter_jit
def _followed(
    whole: JaxLearner,
    key: Key[Array, ""],
    network: Any,
    frame: Frame,
    start: tuple[Any, Array],
    gamma: float,
    horizon: int,
) -> Float[Array, " n"]:
    return whole.follow(key, network, frame, start, gamma, horizon)


@eqx.filter_jit
def _met(
    whole: JaxLearner,
    key: Key[Array, ""],
    network: Any,
    frame: Frame,
    n: int,
    limit: int,
) -> tuple[Any, Array]:
    """A state of each of n greedy episodes."""
    start_key, key = jax.random.split(key)
    start = jax.vmap(whole.environment.reset)(jax.random.split(start_key, n))

    def one(carry, t):
        (state, seen), over, kept = carry
        step_key, take_key = jax.random.split(jax.random.fold_in(key, t))
        # Reservoir: step t of an episode replaces what is kept with the chance 1/(t + 1).
        take = (jax.random.uniform(take_key, (n,)) < 1 / (t + 1)) & ~over
        kept = jax.tree.map(
            lambda old, new: jnp.where(take.reshape(-1, *([1] * (new.ndim - 1))), new, old),
            kept,
            (state, seen),
        )
        action = whole.learner.greedy(network, frame, seen)
        keys = jax.random.split(step_key, n)
        now, step = jax.vmap(whole.environment.step)(keys, state, action)
        over = over | step.terminated | step.truncated
        return ((now, step.observation), over, kept), None

    carry = (start, jnp.zeros(n, bool), start)
    return jax.lax.scan(one, carry, jnp.arange(limit))[0][2]
