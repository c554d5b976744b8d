"""C51 (Bellemare, Dabney, Munos 2017): atoms, and targets shared between their two neighbours."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.models.base import Normalisation, Scalar, Weights
from bellman_diffusion.returns.models.grid import SoftmaxModel


class Categorical(SoftmaxModel):
    """A softmax over atoms on the support, cross-entropy with the projected target."""

    sigma: float = eqx.field(static=True, default=0.25)
    """Atoms have no density; they are reported as Gaussians of this share of their spacing."""

    def target(self, next_weights: Weights, discount: Scalar, place: Weights) -> Weights:
        """Moved atoms, clipped to the support and shared between their neighbours."""
        del discount
        return share_between_neighbours(next_weights, place)

    def distribution(
        self, outputs: Float[Array, "*n actions k"], normalisation: Normalisation
    ) -> AtomicReturn:
        """The atoms, smoothed."""
        support = normalisation.support
        return AtomicReturn(outputs, self.nodes(support), self.sigma * self.spacing(support))


def share_between_neighbours(
    mass: Float[Array, " m"], place: Float[Array, " m"], n: int | None = None
) -> Float[Array, " k"]:
    """Each mass shared between the two nodes next to its place; what lies outside goes to the end."""
    n = mass.shape[0] if n is None else n
    place = jnp.clip(place, 0, n - 1)
    left = jnp.clip(jnp.floor(place), 0, n - 2).astype(jnp.int32)
    t = place - left
    return jnp.zeros(n).at[left].add(mass * (1 - t)).at[left + 1].add(mass * t)
