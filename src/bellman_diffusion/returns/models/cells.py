"""Cells, as exact planning has them, learned from transitions.

Each of n cells around C51's nodes has the probability that the return falls into it, and the mean and
the variance of the return there. The backup moves a cell's content as one piece and merges what falls
into one cell: nothing is spread over neighbours, so the distribution does not widen from update to
update as C51's does. The target's masses and moments are linear in the distribution of the next state,
and the losses (cross-entropy, least squares weighted by mass) have their expectations as minima:
sampled targets average to the exact planner's update.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.errors import InvalidInputError
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

# Neighbouring cells share what lies within so much of their border, in cells: where a piece goes then
# changes smoothly with its place. With a hard border two networks that hardly differ have different
# targets, and training does not come to rest.
_OVERLAP = 0.25
# Half the width of what a cell holds, and the variance of what is at both of its ends.
_REACH = 0.5 + _OVERLAP / 2
_LARGEST_VARIANCE = _REACH**2
_FEWEST = 2


class CellOutputs(NamedTuple):
    """Of every cell, in the units of a cell and from its node."""

    mass: Float[Array, "*n cells"]
    mean: Float[Array, "*n cells"]
    variance: Float[Array, "*n cells"]

    @classmethod
    def of(cls, outputs: Float[Array, "*n m"]) -> "CellOutputs":
        """Split a model's outputs, or a network's raw numbers."""
        return cls(*jnp.split(outputs, len(cls._fields), axis=-1))


class CellModel(HeadModel):
    """Of every cell the mass (a softmax), the mean and the variance of the return."""

    sigma: float = eqx.field(static=True, default=1.0)
    """The smoothing of the density that is drawn, in cells; it plays no part in training."""

    def __check_init__(self) -> None:
        if self.n_cells < _FEWEST:
            raise InvalidInputError(
                f"{self.n_outputs} outputs: cells need at least {3 * _FEWEST}, three for each"
            )

    @property
    def n_cells(self) -> int:
        """Three outputs make a cell."""
        return self.n_outputs // len(CellOutputs._fields)

    @property
    def n_raw(self) -> int:
        """Numbers of the network for each action."""
        return len(CellOutputs._fields) * self.n_cells

    def head(self, raw: Float[Array, "actions m"]) -> Float[Array, "actions m"]:
        """A softmax for the masses, means and variances that a cell can have."""
        logits, mean, variance = CellOutputs.of(raw)
        inside = jnp.clip(mean, -_REACH, _REACH)
        parts = jax.nn.softmax(logits), inside, jnp.clip(variance, 0, _LARGEST_VARIANCE)
        return jnp.concatenate(parts, axis=-1)

    def spacing(self, support: Support) -> Scalar:
        """The width of a cell: the first and the last are around the ends of the support."""
        return support.width / (self.n_cells - 1)

    def atoms(self, outputs: Float[Array, "*n m"], support: Support) -> Float[Array, "*n k"]:
        """The cells' means, within the support."""
        place = jnp.arange(self.n_cells) + CellOutputs.of(outputs).mean
        return support.low + self.spacing(support) * jnp.clip(place, 0, self.n_cells - 1)

    def means(
        self, outputs: Float[Array, "*n actions m"], normalisation: Normalisation
    ) -> Float[Array, "*n actions"]:
        """Of the atoms."""
        mass = CellOutputs.of(outputs).mass
        return jnp.sum(mass * self.atoms(outputs, normalisation.support), axis=-1)

    def distribution(
        self, outputs: Float[Array, "*n actions m"], normalisation: Normalisation
    ) -> AtomicReturn:
        """What a cell holds is spread evenly around its mean, by its variance."""
        support = normalisation.support
        cells = CellOutputs.of(outputs)
        atoms, spacing = self.atoms(outputs, support), self.spacing(support)
        room = jnp.minimum(atoms - support.low, support.high - atoms)
        half = jnp.minimum(spacing * jnp.sqrt(3 * cells.variance), room)
        mass, atoms, half = _in_order(atoms, (cells.mass, atoms, half))
        return AtomicReturn(mass, atoms, self.sigma * spacing, half)

    def discrepancy(
        self, raw: Raw, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> Scalar:
        """Cross-entropy of the masses, and squared errors of the moments weighted by mass."""
        mass, first, second = self.backed_up(next_outputs, backup, support)
        logits, mean, variance = CellOutputs.of(raw)
        now = jax.lax.stop_gradient(jnp.clip(mean, -_REACH, _REACH))
        around = second - 2 * now * first + now**2 * mass
        return jnp.sum(
            mass * mean**2
            - 2 * first * mean
            + mass * variance**2
            - 2 * around * variance
            - mass * jax.nn.log_softmax(logits)
        )

    def backed_up(
        self, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> tuple[Array, Array, Array]:
        """Mass, and first and second moment around the node, of r + γX' in each cell."""
        n, ahead = self.n_cells, CellOutputs.of(next_outputs)
        moved = backup.returns(self.atoms(next_outputs, support))
        place = jnp.clip((moved - support.low) / self.spacing(support), 0, n - 1)
        lower = jnp.clip(jnp.floor(place), 0, n - 2)
        apart = place - lower
        upper_share = jnp.clip((apart - 0.5) / _OVERLAP + 0.5, 0, 1)
        spread = backup.discount**2 * ahead.variance

        def put(share: Array, apart: Array, cell: Array) -> Array:
            parts = ahead.mass * share * jnp.stack([jnp.ones(n), apart, apart**2 + spread])
            return parts @ (cell[:, None] == jnp.arange(n)).astype(parts.dtype)

        both = put(1 - upper_share, apart, lower) + put(upper_share, apart - 1, lower + 1)
        target, first, second = jax.lax.stop_gradient(both)
        return target, first, second

    def overflow(
        self, normalisation: Normalisation, step: Transition, ahead: Bootstrap
    ) -> tuple[Scalar, Scalar]:
        """What the moved atoms lose at the ends."""
        support = normalisation.support
        outputs = ahead.outputs[ahead.action]
        moved = BellmanBackup(step.reward, step.discount).returns(self.atoms(outputs, support))
        mass = CellOutputs.of(outputs).mass
        below = jnp.sum(mass * jnp.maximum(support.low - moved, 0)) / support.width
        above = jnp.sum(mass * jnp.maximum(moved - support.high, 0)) / support.width
        return below, above


def _in_order(
    atoms: Float[Array, "*n cells"], values: tuple[Float[Array, "*n cells"], ...]
) -> tuple[Float[Array, "*n cells"], ...]:
    """Values of cells in the order of their atoms, which is quicker than to sort them.

    What neighbouring cells hold overlaps by less than half a cell: only neighbours may be out of order,
    and of three cells in a row at most one pair is.
    """
    none = jnp.zeros_like(atoms[..., :1], bool)
    swapped = atoms[..., :-1] > atoms[..., 1:]
    with_next = jnp.concatenate([swapped, none], axis=-1)
    with_last = jnp.concatenate([none, swapped], axis=-1)

    def moved(a: Array) -> Array:
        return jnp.where(
            with_next, jnp.roll(a, -1, axis=-1), jnp.where(with_last, jnp.roll(a, 1, axis=-1), a)
        )

    return tuple(moved(a) for a in values)
