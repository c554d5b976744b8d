"""DQN (Mnih et al. 2015): the expected return alone, with Huber's loss."""

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.models.base import HeadModel, Normalisation, Raw, Scalar, Weights
from bellman_diffusion.returns.support import Support


class Expectation(HeadModel):
    """One number an action."""

    def head(self, raw: Float[Array, "actions k"]) -> Float[Array, "actions k"]:
        """The mean itself."""
        return raw

    def means(
        self, outputs: Float[Array, "*n actions k"], normalisation: Normalisation
    ) -> Float[Array, "*n actions"]:
        """The output itself."""
        return outputs[..., 0]

    def distribution(
        self, outputs: Float[Array, "*n actions k"], normalisation: Normalisation
    ) -> AtomicReturn:
        """All mass at the mean: DQN knows no more. Drawn a hundredth of the support wide."""
        return AtomicReturn(jnp.ones_like(outputs), outputs, 0.01 * normalisation.support.width)

    def discrepancy(
        self, raw: Raw, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> Scalar:
        """Huber's loss of the difference."""
        target = backup.returns(next_outputs[0])
        return optax.losses.huber_loss(raw[0], target)
