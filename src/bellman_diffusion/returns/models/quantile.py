"""QR-DQN (Dabney et al. 2018): equally likely returns, moved by quantile regression."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.models.base import HeadModel, Normalisation, Raw, Scalar, Weights
from bellman_diffusion.returns.support import Support

# Where quantiles are shares of the support, Huber's loss is quadratic up to so much of their mean
# distance. The wider, the more they are drawn to expectiles: at 1, W1 on Hopper is 2.7 times as large.
_KAPPA = 0.1


class QuantileRegression(HeadModel):
    """Outputs are the quantiles at (i + ½)/k."""

    shares: bool = eqx.field(static=True, default=False)
    """Whether they are in shares of the support, from its lower end, and not in units of the return."""

    def returns(self, outputs: Float[Array, "*n k"], support: Support) -> Float[Array, "*n k"]:
        """The quantiles in units of the return."""
        return support.low + support.width * outputs if self.shares else outputs

    def head(self, raw: Float[Array, "actions k"]) -> Float[Array, "actions k"]:
        """The quantiles themselves."""
        return raw

    def means(
        self, outputs: Float[Array, "*n actions k"], normalisation: Normalisation
    ) -> Float[Array, "*n actions"]:
        """Of equally likely returns."""
        return jnp.mean(self.returns(outputs, normalisation.support), axis=-1)

    def distribution(
        self, outputs: Float[Array, "*n actions k"], normalisation: Normalisation
    ) -> AtomicReturn:
        """The quantiles, drawn as Gaussians of half their mean distance."""
        k = self.n_outputs
        centres = jnp.sort(self.returns(outputs, normalisation.support), axis=-1)
        spread = centres[..., -1] - centres[..., 0]
        weights = jnp.full(outputs.shape, 1 / k)
        sigma = jnp.maximum(0.5 * spread / k, 1e-3 * normalisation.support.width)
        return AtomicReturn(weights, centres, sigma)

    def discrepancy(
        self, raw: Raw, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> Scalar:
        """Quantile Huber loss to every target quantile."""
        target = backup.returns(self.returns(next_outputs, support))
        if self.shares:
            return quantile_huber(
                raw, (target - support.low) / support.width, _KAPPA / self.n_outputs
            )
        return quantile_huber(raw, target)


def quantile_huber(
    quantiles: Float[Array, " k"], targets: Float[Array, " m"], kappa: float = 1.0
) -> Float[Array, ""]:
    """Σ over quantiles of the mean over targets of |τ − 1(u < 0)| · Huber(u)/κ, u their difference.

    The gradient flows to the quantiles alone. It is computed along with the value: all pairs are gone
    through once, and none is kept for a backward pass.
    """
    k = quantiles.shape[0]
    levels = ((jnp.arange(k) + 0.5) / k)[:, None]
    fixed, targets = jax.lax.stop_gradient((quantiles, targets))
    apart = targets[None, :] - fixed[:, None]
    weight = jnp.where(apart < 0, 1 - levels, levels)
    clipped = jnp.clip(apart, -kappa, kappa)
    # Huber(u) = c (u − c/2) with c = u clipped to ± κ, and its slope is c.
    value = jnp.sum(jnp.mean(weight * clipped * (apart - clipped / 2), axis=1)) / kappa
    slope = -jnp.mean(weight * clipped, axis=1) / kappa
    return value + jnp.sum(slope * (quantiles - fixed))
