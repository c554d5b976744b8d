"""Cells, as exact planning has them, learned from transitions.

Each of n cells around C51's nodes has the probability that the return falls into it, and the mean of
the return there. The backup moves a cell's content as one atom and merges what falls into one cell:
nothing is spread over neighbours, so the distribution does not widen from update to update as C51's
does. The target's masses and first moments are linear in the distribution of the next state, and the
losses (cross-entropy, least squares weighted by mass) have their expectations as minima: sampled
targets average to the exact planner's update.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.models.base import (
    Bootstrap,
    HeadModel,
    Normalisation,
    Raw,
    Scalar,
    Transition,
    Weights,
)
from bellman_diffusion.returns.support import Support

# A cell is part of a density where each of its neighbours has this share of its mass.
_ALIKE = 0.5


class CellModel(HeadModel):
    """Of every cell the mass (a softmax) and the mean of the return (from the node, in cells)."""

    sigma: float = eqx.field(static=True, default=1.0)
    """The smoothing of the density that is drawn, in cells; it plays no part in training."""

    @property
    def n_cells(self) -> int:
        """Two outputs make a cell."""
        return self.n_outputs // 2

    @property
    def n_raw(self) -> int:
        """Numbers of the network for each action."""
        return 2 * self.n_cells

    def head(self, raw: Float[Array, "actions m"]) -> Float[Array, "actions m"]:
        """A softmax for the masses, and means within their cells."""
        logits, mean = jnp.split(raw, 2, axis=-1)
        return jnp.concatenate([jax.nn.softmax(logits), jnp.clip(mean, -0.5, 0.5)], axis=-1)

    def spacing(self, support: Support) -> Scalar:
        """The width of a cell: the first and the last are around the ends of the support."""
        return support.width / (self.n_cells - 1)

    def atoms(self, outputs: Float[Array, "*n m"], support: Support) -> Float[Array, "*n k"]:
        """The cells' means, within the support."""
        place = jnp.arange(self.n_cells) + jnp.split(outputs, 2, axis=-1)[1]
        return support.low + self.spacing(support) * jnp.clip(place, 0, self.n_cells - 1)

    def means(
        self, outputs: Float[Array, "*n actions m"], normalisation: Normalisation
    ) -> Float[Array, "*n actions"]:
        """Of the atoms."""
        mass = jnp.split(outputs, 2, axis=-1)[0]
        return jnp.sum(mass * self.atoms(outputs, normalisation.support), axis=-1)

    def distribution(
        self, outputs: Float[Array, "*n actions m"], normalisation: Normalisation
    ) -> AtomicReturn:
        """Atoms; a cell between two that have as much mass is spread evenly as far as it reaches."""
        support = normalisation.support
        mass, mean = jnp.split(outputs, 2, axis=-1)
        beside = jnp.pad(mass, [(0, 0)] * (mass.ndim - 1) + [(1, 1)])
        less = jnp.minimum(beside[..., :-2], beside[..., 2:])
        atoms, spacing = self.atoms(outputs, support), self.spacing(support)
        room = jnp.minimum(atoms - support.low, support.high - atoms)
        half = jnp.where(less >= _ALIKE * mass, (0.5 - jnp.abs(mean)) * spacing, 0.0)
        return AtomicReturn(mass, atoms, self.sigma * spacing, jnp.minimum(half, room))

    def discrepancy(
        self, raw: Raw, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> Scalar:
        """Cross-entropy of the masses, and squared errors of the means weighted by mass."""
        mass, first = self.backed_up(next_outputs, backup, support)
        logits, mean = jnp.split(raw, 2)
        return jnp.sum(mass * mean**2 - 2 * first * mean - mass * jax.nn.log_softmax(logits))

    def backed_up(
        self, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> tuple[Array, Array]:
        """Mass, and first moment around the node, of r + γX' in each cell."""
        n = self.n_cells
        mass = jnp.split(next_outputs, 2)[0]
        moved = backup.returns(self.atoms(next_outputs, support))
        place = jnp.clip((moved - support.low) / self.spacing(support), 0, n - 1)
        cell = jnp.round(place)
        parts = jnp.stack([mass, mass * (place - cell)])
        into = (cell[:, None] == jnp.arange(n)).astype(parts.dtype)
        target, first = jax.lax.stop_gradient(parts @ into)
        return target, first

    def overflow(
        self, normalisation: Normalisation, step: Transition, ahead: Bootstrap
    ) -> tuple[Scalar, Scalar]:
        """What the moved atoms lose at the ends."""
        support = normalisation.support
        outputs = ahead.outputs[ahead.action]
        moved = BellmanBackup(step.reward, step.discount).returns(self.atoms(outputs, support))
        mass = jnp.split(outputs, 2)[0]
        below = jnp.sum(mass * jnp.maximum(support.low - moved, 0)) / support.width
        above = jnp.sum(mass * jnp.maximum(moved - support.high, 0)) / support.width
        return below, above
