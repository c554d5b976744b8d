"""QR-DQN (Dabney et al. 2018): equally likely returns, moved by quantile regression."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.models.base import HeadModel, Normalisation, Raw, Scalar, Weights
from bellman_diffusion.returns.support import Support


class QuantileRegression(HeadModel):
    """Outputs are the quantiles at (i + ½)/k."""

    def head(self, raw: Float[Array, "actions k"]) -> Float[Array, "actions k"]:
        """The quantiles themselves."""
        return raw

    def means(
        self, outputs: Float[Array, "*n actions k"], normalisation: Normalisation
    ) -> Float[Array, "*n actions"]:
        """Of equally likely returns."""
        return jnp.mean(outputs, axis=-1)

    def distribution(
        self, outputs: Float[Array, "*n actions k"], normalisation: Normalisation
    ) -> AtomicReturn:
        """The quantiles, drawn as Gaussians of half their mean distance."""
        k = self.n_outputs
        centres = jnp.sort(outputs, axis=-1)
        spread = centres[..., -1] - centres[..., 0]
        weights = jnp.full(outputs.shape, 1 / k)
        sigma = jnp.maximum(0.5 * spread / k, 1e-3 * normalisation.support.width)
        return AtomicReturn(weights, centres, sigma)

    def discrepancy(
        self, raw: Raw, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> Scalar:
        """Quantile Huber loss to every target quantile."""
        return quantile_huber(raw, backup.returns(next_outputs))


def quantile_huber(
    quantiles: Float[Array, " k"], targets: Float[Array, " m"], kappa: float = 1.0
) -> Float[Array, ""]:
    """Σ over quantiles of the mean over targets of |τ − 1(u < 0)| · Huber(u)/κ, u their difference."""
    k = quantiles.shape[0]
    levels = (jnp.arange(k) + 0.5) / k
    apart = targets[None, :] - quantiles[:, None]
    weight = jnp.abs(levels[:, None] - jax.lax.stop_gradient(apart < 0))
    return jnp.sum(jnp.mean(weight * optax.losses.huber_loss(apart, delta=kappa) / kappa, axis=1))
