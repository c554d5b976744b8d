"""C51 (Bellemare, Dabney, Munos 2017): atoms, and targets shared between their two neighbours."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.agents.algorithms.base import Frame
from bellman_diffusion.agents.algorithms.categorical import CategoricalAlgorithm
from bellman_diffusion.agents.networks import Reader
from bellman_diffusion.bellman.mixture import MixtureReturn

# Atoms have no density; they are shown as Gaussians of this share of their spacing.
_SHOWN_WIDTH = 0.25


class C51(CategoricalAlgorithm):
    """A softmax over atoms on the support, cross-entropy with the projected target."""

    reader: Reader
    n_actions: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)

    @property
    def margin(self) -> int:
        """The outermost atoms are the ends of the support."""
        return 0

    def target(
        self,
        following: Float[Array, " k"],
        discount: Float[Array, ""],
        place: Float[Array, " k"],
    ) -> Float[Array, " k"]:
        """Moved atoms, clipped to the support and shared between their neighbours."""
        del discount
        return share_between_neighbours(following, place)

    def laws(self, reading: Float[Array, "*n actions k"], frame: Frame) -> MixtureReturn:
        """The atoms, drawn as narrow Gaussians."""
        width = _SHOWN_WIDTH * self.spacing(frame.support)
        return MixtureReturn(reading, self.nodes(frame.support), width)


def share_between_neighbours(
    mass: Float[Array, " m"], place: Float[Array, " m"], n: int | None = None
) -> Float[Array, " k"]:
    """Each mass shared between the two nodes beside its place; what lies outside goes to the end."""
    n = mass.shape[0] if n is None else n
    place = jnp.clip(place, 0, n - 1)
    left = jnp.clip(jnp.floor(place), 0, n - 2).astype(jnp.int32)
    t = place - left
    return jnp.zeros(n).at[left].add(mass * (1 - t)).at[left + 1].add(mass * t)
