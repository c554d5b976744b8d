"""DQN (Mnih et al. 2015): the expected return alone, with Huber's loss."""

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.models.base import HeadModel, Normalisation, Raw, Scalar, Weights
from bellman_diffusion.returns.support import Support


class Expectation(HeadModel):
    """One number an action."""

    shares: bool = eqx.field(static=True, default=False)
    """Whether it is in shares of the support, from its lower end, and not in units of the return."""

    def returns(self, outputs: Float[Array, "*n k"], support: Support) -> Float[Array, "*n k"]:
        """The mean in units of the return."""
        return support.low + support.width * outputs if self.shares else outputs

    def head(self, raw: Float[Array, "actions k"]) -> Float[Array, "actions k"]:
        """The mean itself."""
        return raw

    def means(
        self, outputs: Float[Array, "*n actions k"], normalisation: Normalisation
    ) -> Float[Array, "*n actions"]:
        """The output itself."""
        return self.returns(outputs, normalisation.support)[..., 0]

    def distribution(
        self, outputs: Float[Array, "*n actions k"], normalisation: Normalisation
    ) -> AtomicReturn:
        """All mass at the mean: DQN knows no more. Drawn a hundredth of the support wide."""
        support = normalisation.support
        mean = self.returns(outputs, support)
        return AtomicReturn(jnp.ones_like(mean), mean, 0.01 * support.width)

    def discrepancy(
        self, raw: Raw, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> Scalar:
        """Huber's loss of the difference."""
        target = backup.returns(self.returns(next_outputs, support)[0])
        if self.shares:
            target = (target - support.low) / support.width
        return optax.losses.huber_loss(raw[0], target)
