"""Ours for control: the smoothed return's density at even nodes, backed up with its noise kept.

The model holds the distribution of X + N(0, σ²). For r + γX' the exact backup moves it by x → r + γx,
which takes the noise's variance to γ²σ², and adds N(0, (1 − γ²)σ²): the noise-preserving backup. A
moved weight is put on the nodes so that its mean is kept and its variance grows by the noise that was
lost, where C51's two-node sharing widens the distribution at every backup by whatever the grid asks
for. After a terminal step the target is N(r, σ²) itself.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.models.base import Normalisation, Scalar, Weights
from bellman_diffusion.returns.models.categorical import share_between_neighbours
from bellman_diffusion.returns.models.grid import SoftmaxModel

_CENTRES_PER_NODE = 2
# The width of the drawn Gaussians, in distances of their centres: no gaps in the density.
_GAPLESS = 0.5
# Steps for a smoothing of one node, and for a wide one. Twice as many moved W1 by less than 0.1 nodes.
_SHARPENINGS = 20
_MOST_SHARPENINGS = 100


class SmoothedCategorical(SoftmaxModel):
    """Softmax weights are the smoothed density at the nodes; cross-entropy with its backup."""

    sigma: float = eqx.field(static=True, default=1.0)
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

    def target(self, next_weights: Weights, discount: Scalar, place: Weights) -> Weights:
        """The noise-preserving backup, or N(r, σ²) at an end."""
        added = BellmanBackup(0.0, discount).lost_variance(self.sigma)
        moved = spread(next_weights, place, added)
        # At an end the discount is 0, and every node's place is that of the reward.
        return jnp.where(discount > 0, moved, self.smoothed(place[0]))

    def smoothed(self, place: Float[Array, ""]) -> Float[Array, " k"]:
        """The weights of a return that is certain, at a place in nodes."""
        return jax.nn.softmax(-0.5 * ((jnp.arange(self.n_outputs) - place) / self.sigma) ** 2)

    def distribution(
        self, outputs: Float[Array, "*n actions k"], normalisation: Normalisation
    ) -> AtomicReturn:
        """The return's own distribution: the one whose smoothing is nearest to the weights.

        Nearest by relative entropy. Richardson–Lucy steps (expectation-maximisation for the weights of
        a mixture) find it: what smoothing cannot have made, such as mass beyond the support, is left
        out, and a small tail stays separate. Then each distribution is shifted, usually by less than a
        node, to the mean that the agent acts by. Each centre is drawn as a Gaussian just wide enough
        that the density has no gaps.
        """
        inner = self.n_outputs - 1 - 2 * self.margin
        places = jnp.linspace(0, inner, _CENTRES_PER_NODE * inner + 1)
        kernel = jax.vmap(self.smoothed)(places + self.margin)

        def step(_: Any, weights: Float[Array, "*n actions c"]) -> Float[Array, "*n actions c"]:
            ratio = (outputs / jnp.maximum(weights @ kernel, 1e-30)) @ kernel.T
            # To the power 1.5: longer steps, still of falling relative entropy.
            weights = weights * ratio * jnp.sqrt(ratio)
            return weights / weights.sum(axis=-1, keepdims=True)

        even = jnp.full((*outputs.shape[:-1], len(places)), 1 / len(places))
        weights = jax.lax.fori_loop(0, self._sharpenings, step, even)
        support = normalisation.support
        spacing = self.spacing(support)
        centres = support.low + places * spacing
        missing = self.means(outputs, normalisation) - weights @ centres
        width = _GAPLESS * spacing / _CENTRES_PER_NODE
        return AtomicReturn(weights, centres + missing[..., None], width)

    @property
    def _sharpenings(self) -> int:
        """The wider the smoothing, the more steps to undo it."""
        return min(math.ceil(_SHARPENINGS * self.sigma**2), _MOST_SHARPENINGS)


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
    # One node is left free at each end for the diffusion.
    place = jnp.clip(place, 1, n - 2) - 1
    t = place - jnp.clip(jnp.floor(place), 0, n - 4)
    diffused = mass * jnp.clip((added - t * (1 - t)) / 2, 0, 0.5)

    def shared(mass: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.pad(share_between_neighbours(mass, place, n - 2), 1)

    moving = jnp.pad(shared(diffused), 1)
    return shared(mass) + moving[:-2] - 2 * moving[1:-1] + moving[2:]
