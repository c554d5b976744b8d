"""Cells, as exact planning has them, learned from transitions.

Each of n cells around C51's nodes has the probability that the return falls into it, and the mean and
the variance of the return there. The backup moves a cell's content as one atom and merges what falls
into one cell: nothing is spread over neighbours, so the distribution does not widen from update to
update as C51's does. The target's masses, first and second moments are linear in the distribution of
the next state, and the losses (cross-entropy, least squares weighted by mass) have their expectations
as minima: sampled targets average to the exact planner's update.
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

_MOMENT_WEIGHT = 1.0


class CellModel(HeadModel):
    """Of every cell: mass (a softmax), mean (from the node, in cells) and variance of the return."""

    sigma: float = eqx.field(static=True, default=1.0)
    """The smoothing of the density that is drawn, in cells; it plays no part in training."""

    @property
    def n_cells(self) -> int:
        """Three outputs make a cell."""
        return self.n_outputs // 3

    @property
    def n_raw(self) -> int:
        """Numbers of the network for each action."""
        return 3 * self.n_cells

    def head(self, raw: Float[Array, "actions m"]) -> Float[Array, "actions m"]:
        """A softmax for the masses; means and variances that a cell of width 1 can have."""
        logits, mean, variance = jnp.split(raw, 3, axis=-1)
        mean, variance = jnp.clip(mean, -0.5, 0.5), jnp.clip(variance, 0.0, 0.25)
        return jnp.concatenate([jax.nn.softmax(logits), mean, variance], axis=-1)

    def spacing(self, support: Support) -> Scalar:
        """The width of a cell: the first and the last are around the ends of the support."""
        return support.width / (self.n_cells - 1)

    def atoms(self, outputs: Float[Array, "*n m"], support: Support) -> Float[Array, "*n k"]:
        """The cells' means, within the support."""
        place = jnp.arange(self.n_cells) + jnp.split(outputs, 3, axis=-1)[1]
        return support.low + self.spacing(support) * jnp.clip(place, 0, self.n_cells - 1)

    def means(
        self, outputs: Float[Array, "*n actions m"], normalisation: Normalisation
    ) -> Float[Array, "*n actions"]:
        """Of the atoms."""
        mass = jnp.split(outputs, 3, axis=-1)[0]
        return jnp.sum(mass * self.atoms(outputs, normalisation.support), axis=-1)

    def distribution(
        self, outputs: Float[Array, "*n actions m"], normalisation: Normalisation
    ) -> AtomicReturn:
        """The atoms, each spread evenly by its variance as far as the support allows."""
        support = normalisation.support
        mass, _, variance = jnp.split(outputs, 3, axis=-1)
        atoms, spacing = self.atoms(outputs, support), self.spacing(support)
        room = jnp.minimum(atoms - support.low, support.high - atoms)
        half = jnp.minimum(jnp.sqrt(3 * variance) * spacing, room)
        return AtomicReturn(mass, atoms, self.sigma * spacing, half)

    def discrepancy(
        self, raw: Raw, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> Scalar:
        """Cross-entropy of the masses, and squared errors of means and variances weighted by mass."""
        mass, first, second = self.backed_up(next_outputs, backup, support)
        logits, mean, variance = jnp.split(raw, 3)
        known = jax.lax.stop_gradient(mean)
        # E[(X − mean)²; cell] from the moments around the node.
        spread = second - 2 * first * known + mass * known**2
        moments = mass * mean**2 - 2 * first * mean + mass * variance**2 - 2 * spread * variance
        return _MOMENT_WEIGHT * jnp.sum(moments) - jnp.sum(mass * jax.nn.log_softmax(logits))

    def backed_up(
        self, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> tuple[Array, Array, Array]:
        """Mass, and first and second moment around the node, of r + γX' in each cell."""
        n = self.n_cells
        mass, _, variance = jnp.split(next_outputs, 3)
        moved = backup.returns(self.atoms(next_outputs, support))
        place = jnp.clip((moved - support.low) / self.spacing(support), 0, n - 1)
        cell = jnp.round(place)
        apart = place - cell
        parts = jnp.stack([mass, mass * apart, mass * (apart**2 + backup.discount**2 * variance)])
        into = cell[:, None] == jnp.arange(n)
        return tuple(jax.lax.stop_gradient(parts @ into.astype(parts.dtype)))

    def overflow(
        self, normalisation: Normalisation, step: Transition, ahead: Bootstrap
    ) -> tuple[Scalar, Scalar]:
        """What the moved atoms lose at the ends."""
        support = normalisation.support
        outputs = ahead.outputs[ahead.action]
        moved = BellmanBackup(step.reward, step.discount).returns(self.atoms(outputs, support))
        mass = jnp.split(outputs, 3)[0]
        below = jnp.sum(mass * jnp.maximum(support.low - moved, 0)) / support.width
        above = jnp.sum(mass * jnp.maximum(moved - support.high, 0)) / support.width
        return below, above
