"""The default: the smoothed return's density at evenly spaced points, backed up with its noise kept.

The model holds the law of X + N(0, σ²). For r + dX' the exact backup moves it by x → r + dx, which
takes the noise's variance to d²σ², and adds N(0, (1 − d²)σ²): the noise-preserving backup. A moved
weight is put on the nodes so that its mean is kept and its variance grows by the noise that was lost,
where C51's two-node sharing widens the law at every backup by whatever the grid asks for. After a
terminal step the target is N(r, σ²) itself.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.agents.algorithms.base import Frame
from bellman_diffusion.agents.algorithms.categorical import CategoricalAlgorithm
from bellman_diffusion.agents.networks import Reader
from bellman_diffusion.bellman.mixture import MixtureReturn
from bellman_diffusion.errors import InvalidInputError


class BellmanFields(CategoricalAlgorithm):
    """Softmax weights are the smoothed density at the nodes; cross-entropy with its backup."""

    reader: Reader
    n_actions: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)
    sigma: float = eqx.field(static=True)
    """The smoothing in nodes."""

    def __check_init__(self) -> None:
        """The support needs at least two nodes between the margins."""
        if self.n_outputs < 2 * self.margin + 2:
            raise InvalidInputError(
                f"{self.n_outputs} outputs are too few for a smoothing of {self.sigma:g} of them: give "
                f"n_outputs of at least {2 * self.margin + 2}, or a smaller sigma"
            )

    @property
    def margin(self) -> int:
        """Room for the smoothing's tails: what they lose at the ends, backups add up."""
        return max(1, round(3 * self.sigma))

    def target(
        self,
        following: Float[Array, " k"],
        discount: Float[Array, ""],
        place: Float[Array, " k"],
    ) -> Float[Array, " k"]:
        """The noise-preserving backup, or N(r, σ²) at an end."""
        n = self.n_outputs
        moved = spread(following, place, (1 - discount**2) * self.sigma**2)
        # At an end the discount is 0, and every node's place is that of the reward.
        ended = jax.nn.softmax(-0.5 * ((jnp.arange(n) - place[0]) / self.sigma) ** 2)
        return jnp.where(discount > 0, moved, ended)

    def laws(self, reading: Float[Array, "*n actions k"], frame: Frame) -> MixtureReturn:
        """The return's own law: the smoothing is taken out again, to second order.

        The nodes are drawn towards the mean until the variance is what it was before σ² was added; what
        then still lies outside the support is put on its ends. Each is a Gaussian just wide enough that
        the density has no gaps.
        """
        nodes, spacing = self.nodes(frame.support), self.spacing(frame.support)
        mean = reading @ nodes
        apart = nodes - mean[..., None]
        variance = jnp.sum(reading * apart**2, axis=-1)
        least = (_NARROWEST * spacing) ** 2
        own = jnp.maximum(variance - (self.sigma * spacing) ** 2 - least, 0.0)
        shrink = jnp.sqrt(own / (variance + (_GAPLESS * spacing) ** 2))
        centres = mean[..., None] + shrink[..., None] * apart
        centres = jnp.clip(centres, frame.support.low, frame.support.high)
        return MixtureReturn(reading, centres, jnp.sqrt((_GAPLESS * spacing * shrink) ** 2 + least))


# Widths of the drawn Gaussians, in nodes: between neighbours, and of a return that is certain.
_GAPLESS = 0.5
_NARROWEST = 0.1


def spread(
    mass: Float[Array, " k"], place: Float[Array, " k"], added: Float[Array, ""] | float
) -> Float[Array, " k"]:
    """Each mass on the nodes around its place, with its mean kept and the variance `added` to it.

    Two-node sharing by the distances t and 1 − t keeps the mean and adds the variance t(1 − t).
    Diffusion of a share a to both sides adds 2a more: a = (added − t(1 − t))/2. Where sharing alone
    adds too much, a would be negative, and cross-entropy with negative weights has no minimum: there it
    is 0, as for C51.
    """
    n = mass.shape[0]
    place = jnp.clip(place, 1, n - 2)
    left = jnp.clip(jnp.floor(place), 1, n - 3)
    t = place - left
    index = left.astype(jnp.int32)
    diffused = mass * jnp.clip((added - t * (1 - t)) / 2, 0, 0.5)

    def shared(mass: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.zeros(n).at[index].add(mass * (1 - t)).at[index + 1].add(mass * t)

    moving = jnp.pad(shared(diffused), 1)
    return shared(mass) + moving[:-2] - 2 * moving[1:-1] + moving[2:]
