"""Annealed dynamics with some coordinates known: draws of the others given them."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from bellman_diffusion.dynamics.annealed import Annealed, AnnealedState
from bellman_diffusion.dynamics.base import AbstractDynamics, Info, Paths
from bellman_diffusion.fields import GuidedPair, NoiseConditionalPair
from bellman_diffusion.fields.base import RandomKey


class ConditionedState(NamedTuple):
    """Where the paths are, what is known of them (NaN where free), and the level."""

    position: Paths
    values: Paths
    level: Int[Array, ""]


class Conditioned(AbstractDynamics[ConditionedState]):
    """Paths start at rows with NaN where a coordinate is free, and end with all coordinates filled."""

    field: NoiseConditionalPair
    n_steps: int = eqx.field(static=True)
    n_corrections: int = eqx.field(static=True, default=1)
    step_factor: float = eqx.field(static=True, default=0.1)

    def init(self, position: Paths) -> ConditionedState:
        """Rows with NaN where they are free."""
        return ConditionedState(position, position, jnp.asarray(0))

    def step(self, key: RandomKey, state: ConditionedState) -> tuple[ConditionedState, Info]:
        """One level of the annealed dynamics, each path with its own known values."""

        def one(key, x, values):
            key_start, key_step = jax.random.split(key)
            field = GuidedPair.create(self.field, values)
            annealed = Annealed(
                field=field,
                scale=self.field.scale,
                n_steps=self.n_steps,
                n_corrections=self.n_corrections,
                step_factor=self.step_factor,
            )
            x = jnp.where(state.level == 0, field.start(key_start), x)
            return annealed.step(key_step, AnnealedState(x[None], state.level))[0].position[0]

        keys = jax.random.split(key, len(state.position))
        x = jax.vmap(one)(keys, state.position, state.values)
        # After the last level what is known is set to its very value.
        last = jnp.isfinite(state.values) & (state.level == self.n_steps - 1)
        x = jnp.where(last, state.values, x)
        return ConditionedState(x, state.values, state.level + 1), Info(jnp.ones(len(x), bool))
