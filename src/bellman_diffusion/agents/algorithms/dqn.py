"""DQN (Mnih and others 2015): the expected return alone, with Huber's loss."""

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from bellman_diffusion.agents.algorithms.base import Frame, HeadAlgorithm
from bellman_diffusion.agents.networks import Reader
from bellman_diffusion.agents.support import Support
from bellman_diffusion.bellman.mixture import MixtureReturn


class DQN(HeadAlgorithm):
    """One number an action."""

    reader: Reader
    n_actions: int = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True, default=1)

    def reading(self, outputs: Float[Array, "actions k"]) -> Float[Array, "actions k"]:
        """The outputs themselves."""
        return outputs

    def means(
        self, reading: Float[Array, "*n actions k"], frame: Frame
    ) -> Float[Array, "*n actions"]:
        """The output itself."""
        return reading[..., 0]

    def laws(self, reading: Float[Array, "*n actions k"], frame: Frame) -> MixtureReturn:
        """All mass at the mean: DQN knows no more. Drawn a hundredth of the support wide."""
        return MixtureReturn(jnp.ones_like(reading), reading, 0.01 * frame.support.width)

    def discrepancy(
        self,
        outputs: Float[Array, " k"],
        following: Float[Array, " k"],
        reward: Float[Array, ""],
        discount: Float[Array, ""],
        support: Support,
    ) -> Float[Array, ""]:
        """Huber's loss of the difference."""
        return optax.losses.huber_loss(outputs[0], reward + discount * following[0])
