"""The default: the smoothed return's density at evenly spaced points, backed up with its noise kept.

The model holds the law of X + N(0, σ²). For r + dX' the exact backup moves it by x → r + dx, which
takes the noise's variance to d²σ², and adds N(0, (1 − d²)σ²): the noise-preserving backup. A moved
weight is put on the nodes so that its mean is kept and its variance grows by the noise that was lost,
where C51's two-node sharing widens the law at every backup by whatever the grid asks for. After a
terminal step the target is N(r, σ²) itself.
"""

import math
from typing import Any

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
        moved = spread(following, place, (1 - discount**2) * self.sigma**2)
        # At an end the discount is 0, and every node's place is that of the reward.
        return jnp.where(discount > 0, moved, self.smoothed(place[0]))

    def smoothed(self, place: Float[Array, ""]) -> Float[Array, " k"]:
        """The weights of a return that is certain, at a place in nodes."""
        return jax.nn.softmax(-0.5 * ((jnp.arange(self.n_outputs) - place) / self.sigma) ** 2)

    def laws(self, reading: Float[Array, "*n actions k"], frame: Frame) -> MixtureReturn:
        """The return's own law: the one on the support whose smoothing is nearest to the weights.

        Nearest by relative entropy. Richardson–Lucy steps (expectation-maximisation for the weights of
        a mixture) find it: what smoothing cannot have made, such as mass beyond the support, is left
        out, and a small tail stays apart from the rest. Then each law is moved, by less than a node as
        a rule, to the mean that the agent acts by. Each centre is drawn as a Gaussian just wide enough
        that the density has no gaps.
        """
        inner = self.n_outputs - 1 - 2 * self.margin
        places = jnp.linspace(0, inner, _CENTRES_PER_NODE * inner + 1)
        kernel = jax.vmap(self.smoothed)(places + self.margin)

        def step(_: Any, law: Float[Array, "*n actions c"]) -> Float[Array, "*n actions c"]:
            ratio = (reading / jnp.maximum(law @ kernel, 1e-30)) @ kernel.T
            # To the power 1.5: longer steps, still of falling relative entropy.
            law = law * ratio * jnp.sqrt(ratio)
            return law / law.sum(axis=-1, keepdims=True)

        even = jnp.full((*reading.shape[:-1], len(places)), 1 / len(places))
        law = jax.lax.fori_loop(0, self._sharpenings, step, even)
        spacing = self.spacing(frame.support)
        centres = frame.support.low + places * spacing
        missing = self.means(reading, frame) - law @ centres
        width = _GAPLESS * spacing / _CENTRES_PER_NODE
        return MixtureReturn(law, centres + missing[..., None], width)

    @property
    def _sharpenings(self) -> int:
        """The wider the smoothing, the more steps to undo it."""
        return min(math.ceil(_SHARPENINGS * self.sigma**2), _MOST_SHARPENINGS)


_CENTRES_PER_NODE = 2
# The width of the drawn Gaussians, in distances of their centres.
_GAPLESS = 0.5
# Steps for a smoothing of one node, and for a wide one. Twice as many moved W1 by less than 0.1 nodes.
_SHARPENINGS = 20
_MOST_SHARPENINGS = 100


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
