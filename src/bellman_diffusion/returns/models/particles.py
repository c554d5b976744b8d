"""Particles for returns of several components, trained in the energy distance.

A network gives K equally likely vectors for each state. The backup moves every one of them to
r + γx, with a discount for each component, so several discounts are one model. The energy distance is
a squared distance in a Hilbert space: for sampled targets its expectation has the same minimum as for
their mixture, and a backup contracts it in every dimension (Zhang et al. 2021; Wiltzer et al. 2024).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.joint import JointReturn
from bellman_diffusion.returns.models.base import HeadModel, Normalisation, Raw, Scalar, Weights
from bellman_diffusion.returns.support import Support

# Keeps the slope of a distance finite where two particles meet.
_TINY = 1e-12
# The weight of the distances along the axes. They sharpen the marginals; with as much weight as the
# distance in space, particles with the right marginals come to rest in the wrong pairs.
_AXES = 0.2


class Particles(HeadModel):
    """`n_outputs` particles of `dim` components; outputs are their places in shares of the support."""

    dim: int = eqx.field(static=True, default=1)
    sigma: float = eqx.field(static=True, default=0.02)
    """The smoothing of the density that is drawn, as a share of each component's range."""

    @property
    def n_raw(self) -> int:
        """Numbers of the network for each action."""
        return self.n_outputs * self.dim

    def head(self, raw: Float[Array, "actions m"]) -> Float[Array, "actions m"]:
        """Places within the support, in shares of it."""
        return jnp.clip(0.5 + raw, 0, 1)

    def means(
        self, outputs: Float[Array, "*n m"], normalisation: Normalisation
    ) -> Float[Array, "*n dim"]:
        """The mean vector of each action."""
        return jnp.mean(self.returns(outputs, normalisation.support), axis=-2)

    def returns(
        self, outputs: Float[Array, "*n m"], support: Support
    ) -> Float[Array, "*n particles dim"]:
        """The particles in units of the return."""
        return support.low + support.width * outputs.reshape(*outputs.shape[:-1], -1, self.dim)

    def distribution(
        self, outputs: Float[Array, "*n actions m"], normalisation: Normalisation
    ) -> JointReturn:
        """The joint distribution of each action's return."""
        at = self.returns(outputs, normalisation.support)
        even = jnp.full(at.shape[:-1], 1 / self.n_outputs)
        return JointReturn(even, at, self.sigma * normalisation.support.width)

    def discrepancy(
        self, raw: Raw, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> Scalar:
        """The energy distance to the backup, up to a constant."""
        moved = (backup.returns(self.returns(next_outputs, support)) - support.low) / support.width
        target = jax.lax.stop_gradient(jnp.clip(moved, 0, 1))
        own = 0.5 + raw.reshape(-1, self.dim)
        return 2 * _mean_distance(own, target) - _mean_distance(own, own)


def _mean_distance(one: Float[Array, "k dim"], other: Float[Array, "n dim"]) -> Scalar:
    """Between two particles, one of each set; with the distances along the axes, for the marginals."""
    squared, along_axes = jnp.asarray(_TINY), jnp.zeros(())
    # Component by component: a sum over an array's last axis of a few numbers is slow.
    for a, b in zip(one.T, other.T, strict=True):
        apart = a[:, None] - b
        squared = squared + apart**2
        along_axes = along_axes + jnp.abs(apart)
    return jnp.mean(jnp.sqrt(squared) + _AXES * along_axes)
