"""How accurate an agent's return distributions are: against Monte-Carlo returns of its own policy."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bellman_diffusion.agents.jax_learner import JaxLearner, where_rows
from bellman_diffusion.agents.replay import RandomKey
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.models import Normalisation
from bellman_diffusion.returns.tabulated import TabulatedReturn

# Rewards that are discounted to this share of the first are left out.
_NEGLIGIBLE = 1e-3
_GRID = 2000


class PredictedReturns(NamedTuple):
    """Predictions at some states, and the returns that followed from there."""

    observations: Float[np.ndarray, "states *shape"]
    distributions: ReturnDistribution
    """Of the greedy actions."""
    returns: Float[np.ndarray, "states rollouts"]

    def w1(self) -> Float[np.ndarray, " states"]:
        """Wasserstein-1 between each prediction and its returns, in units of the return."""
        predicted = self.distributions
        low = min(float(predicted.low), float(self.returns.min()))
        high = max(float(predicted.high), float(self.returns.max()))
        x = np.linspace(low, high, _GRID).astype(np.float32)
        cdf = np.asarray(predicted.cdf(jnp.asarray(x)))
        ordered = np.sort(self.returns, axis=1)
        seen = np.stack([np.searchsorted(row, x, side="right") for row in ordered])
        return np.trapezoid(np.abs(cdf - seen / ordered.shape[1]), x, axis=1)

    def field_errors(
        self, width: float
    ) -> tuple[Float[np.ndarray, " states"], Float[np.ndarray, " states"]]:
        """∫ |s − s*| / ∫ |s*| and the same of g, the true fields being those of returns + N(0, width²).

        What the paper's networks smoothed already, with the ends, is theirs and not in the true fields.
        """
        predicted = self.distributions
        if isinstance(predicted, TabulatedReturn):
            predicted = predicted.smoothed(width)
        n = self.returns.shape[1]
        true = AtomicReturn(
            jnp.full(self.returns.shape, 1 / n, jnp.float32),
            jnp.asarray(self.returns, jnp.float32),
            jnp.asarray(width, jnp.float32),
        )
        low, high = min(predicted.low, true.low), max(predicted.high, true.high)
        low, high = low - 6 * width, high + 6 * width
        x = jnp.linspace(low, high, _GRID)
        errors = [
            np.abs(np.asarray(a - b, float)).sum(axis=1) / np.abs(np.asarray(b, float)).sum(axis=1)
            for a, b in (
                (predicted.pdf(x, width), true.pdf(x, width)),
                (predicted.gradient(x, width), true.gradient(x, width)),
            )
        ]
        return errors[0], errors[1]


def evaluate_returns(
    whole: JaxLearner,
    key: RandomKey,
    network: Any,
    normalisation: Normalisation,
    n_states: int = 20,
    n_rollouts: int = 32,
) -> PredictedReturns:
    """From states met on greedy episodes, one an episode at a time drawn evenly over its length."""
    limit = whole.environment.spec.time_limit or 1000
    start_key, roll_key = jax.random.split(key)
    met = _met(whole, start_key, network, normalisation, n_states, limit)
    return evaluate_states(whole, roll_key, network, normalisation, met, n_rollouts)


def evaluate_states(
    whole: JaxLearner,
    key: RandomKey,
    network: Any,
    normalisation: Normalisation,
    start: tuple[Any, Array],
    n_rollouts: int = 32,
) -> PredictedReturns:
    """From given environment states and their observations.

    Time limits are passed through: predicted returns do not know them.
    """
    gamma = whole.config.gamma
    limit = whole.environment.spec.time_limit or 1000
    horizon = limit if gamma == 1 else int(np.ceil(np.log(_NEGLIGIBLE) / np.log(gamma)))
    seen = start[1]
    n_states = seen.shape[0]
    many = jax.tree.map(lambda a: jnp.repeat(a, n_rollouts, axis=0), start)
    returns = _followed(whole, key, network, normalisation, many, gamma, horizon)
    learner = whole.learner
    outputs = learner.outputs(network, normalisation, seen)
    distributions = learner.model.distribution(outputs, normalisation)
    actions = learner.best(outputs, normalisation)
    return PredictedReturns(
        observations=np.asarray(seen),
        distributions=distributions[jnp.arange(n_states), actions],
        returns=np.asarray(returns).reshape(n_states, n_rollouts),
    )


# Compiled once for an environment and a configuration, not for every seed that is evaluated.
_followed = eqx.filter_jit(lambda whole, *arguments: whole.follow(*arguments))


@eqx.filter_jit
def _met(
    whole: JaxLearner,
    key: RandomKey,
    network: Any,
    normalisation: Normalisation,
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
        kept = where_rows(take, (state, seen), kept)
        action = whole.learner.greedy(network, normalisation, seen)
        keys = jax.random.split(step_key, n)
        now, step = jax.vmap(whole.environment.step)(keys, state, action)
        over = over | step.terminated | step.truncated
        return ((now, step.observation), over, kept), None

    carry = (start, jnp.zeros(n, bool), start)
    return jax.lax.scan(one, carry, jnp.arange(limit))[0][2]
