"""QR-DQN (Dabney and others 2018): equally likely returns, moved by quantile regression."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.agents.algorithms.base import Frame, HeadAlgorithm
from bellman_diffusion.agents.networks import Reader
from bellman_diffusion.agents.support import Support
from bellman_diffusion.bellman.mixture import MixtureReturn


class QuantileRegression(HeadAlgorithm):
    """Outputs are the quantiles at (i + ½)/k."""

    reader: Reader
    n_actions: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)

    def reading(self, outputs: Float[Array, "actions k"]) -> Float[Array, "actions k"]:
        """The outputs themselves."""
        return outputs

    def means(
        self, reading: Float[Array, "*n actions k"], frame: Frame
    ) -> Float[Array, "*n actions"]:
        """Of equally likely returns."""
        return jnp.mean(reading, axis=-1)

    def laws(self, reading: Float[Array, "*n actions k"], frame: Frame) -> MixtureReturn:
        """The quantiles, drawn as Gaussians of half their mean distance."""
        k = self.n_outputs
        centres = jnp.sort(reading, axis=-1)
        spread = centres[..., -1] - centres[..., 0]
        weights = jnp.full(reading.shape, 1 / k)
        sigma = jnp.maximum(0.5 * spread / k, 1e-3 * frame.support.width)
        return MixtureReturn(weights, centres, sigma)

    def discrepancy(
        self,
        outputs: Float[Array, " k"],
        following: Float[Array, " k"],
        reward: Float[Array, ""],
        discount: Float[Array, ""],
        support: Support,
    ) -> Float[Array, ""]:
        """Quantile Huber loss to every target quantile."""
        return quantile_huber(outputs, reward + discount * following)


def quantile_huber(
    quantiles: Float[Array, " k"], targets: Float[Array, " m"], kappa: float = 1.0
) -> Float[Array, ""]:
    """Σ over quantiles of the mean over targets of |τ − 1(u < 0)| · Huber(u)/κ, u their difference."""
    k = quantiles.shape[0]
    levels = (jnp.arange(k) + 0.5) / k
    apart = targets[None, :] - quantiles[:, None]
    size = jnp.abs(apart)
    huber = jnp.where(size <= kappa, 0.5 * apart**2, kappa * (size - 0.5 * kappa))
    weight = jnp.abs(levels[:, None] - jax.lax.stop_gradient(apart < 0))
    return jnp.sum(jnp.mean(weight * huber / kappa, axis=1))
