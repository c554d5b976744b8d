"""Metropolis adjustment: exact weights at any step size, where s is a density.

The Euler proposal y ~ N(x + g η, s η I) is accepted with probability
min(1, s(y) q(x|y) / (s(x) q(y|x))): detailed balance for the density s.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.dynamics.base import AbstractDynamics, Info, Paths
from bellman_diffusion.fields import AbstractField
from bellman_diffusion.fields.base import RandomKey, Scalar


class MetropolisState(NamedTuple):
    """Where the paths are, with the fields there, so that a step evaluates them once."""

    position: Paths
    scalar: Float[Array, " paths"]
    gradient: Paths


class Metropolis(AbstractDynamics[MetropolisState]):
    """The Euler–Maruyama step as a proposal, accepted or rejected with s as the target density."""

    field: AbstractField
    step_size: Scalar | float
    n_steps: int = eqx.field(static=True)

    def init(self, position: Paths) -> MetropolisState:
        """Paths at `position`."""
        return MetropolisState(position, *jax.vmap(self.field.scalar_and_gradient)(position))

    def step(self, key: RandomKey, state: MetropolisState) -> tuple[MetropolisState, Info]:
        """Propose, then accept or stay."""
        key_propose, key_accept = jax.random.split(key)
        x = state.position
        noise = jax.random.normal(key_propose, x.shape)
        spread = jnp.sqrt(state.scalar * self.step_size)[:, None]
        proposal = self.init(x + state.gradient * self.step_size + spread * noise)
        log_ratio = (
            jnp.log(proposal.scalar)
            - jnp.log(state.scalar)
            + self._log_proposal(proposal, state)
            - self._log_proposal(state, proposal)
        )
        uniform = jax.random.uniform(key_accept, (x.shape[0],))
        # A proposal that is not finite compares as False: the path stays where it is.
        accepted = jnp.log(uniform) < log_ratio
        state = jax.tree.map(lambda new, old: _where(accepted, new, old), proposal, state)
        return state, Info(accepted)

    def _log_proposal(self, here: MetropolisState, there: MetropolisState) -> Float[Array, " n"]:
        # log q(there | here), up to a constant.
        variance = here.scalar * self.step_size
        mean = here.position + here.gradient * self.step_size
        distance = jnp.sum((there.position - mean) ** 2, axis=1)
        return -0.5 * distance / variance - 0.5 * mean.shape[1] * jnp.log(variance)


def _where(condition: Array, new: Array, old: Array) -> Array:
    return jnp.where(condition.reshape(-1, *[1] * (new.ndim - 1)), new, old)
