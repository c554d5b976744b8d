"""DQN (Mnih et al. 2015): the expected return alone, with Huber's loss."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.mixture import MixtureReturn
from bellman_diffusion.returns.models.base import HeadModel, Normalisation
from bellman_diffusion.returns.networks import Activation
from bellman_diffusion.returns.observations import ObservationEncoder
from bellman_diffusion.returns.support import Support


class Expectation(HeadModel):
    """One number an action."""

    encoder: ObservationEncoder
    n_actions: int = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)
    activation: Activation = eqx.field(static=True, default=jax.nn.relu)
    n_outputs: int = eqx.field(static=True, default=1)

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
    ) -> MixtureReturn:
        """All mass at the mean: DQN knows no more. Drawn a hundredth of the support wide."""
        return MixtureReturn(jnp.ones_like(outputs), outputs, 0.01 * normalisation.support.width)

    def discrepancy(
        self,
        raw: Float[Array, " k"],
        next_outputs: Float[Array, " k"],
        reward: Float[Array, ""],
        discount: Float[Array, ""],
        support: Support,
    ) -> Float[Array, ""]:
        """Huber's loss of the difference."""
        target = BellmanBackup(reward, discount).returns(next_outputs[0])
        return optax.losses.huber_loss(raw[0], target)
