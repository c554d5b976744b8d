"""What planning finds: return distributions of states, in the form that each way of planning has."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Shaped

from bellman_diffusion.planning.certify import Certified, certified_distribution
from bellman_diffusion.planning.counting import CountedReturns
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.joint import JointReturn
from bellman_diffusion.returns.models import LearnedReturns

_BYTES_AT_ONCE = 2**26


class TableReturns(eqx.Module):
    """Coefficients of a Gaussian basis for each state of a finite environment."""

    table: Float[Array, "states k"]
    centres: Float[Array, " k"]
    sigma: Float[Array, ""]

    def distribution(self, rows: Float[Array, "n 1"]) -> AtomicReturn:
        """Of each row's state."""
        coefficients = self.table[rows[:, 0].astype(jnp.int32)]
        return AtomicReturn.of_gaussians(coefficients, self.centres, self.sigma)


class AlongReturns(eqx.Module):
    """w·X of learned vector returns."""

    joint: LearnedReturns
    weights: Float[Array, " dim"]

    @classmethod
    def of(cls, joint: LearnedReturns, weights: Any) -> "AlongReturns":
        """With weights of any kind."""
        return cls(joint, jnp.asarray(weights, jnp.float32))

    def distribution(self, rows: Array) -> AtomicReturn:
        """Of each observation and the one action of a planner's model."""
        return self.joint.distribution(rows).along(self.weights)


PlannedReturns = Certified | CountedReturns | TableReturns | LearnedReturns | AlongReturns


def state_distribution(
    returns: PlannedReturns, rows: Shaped[Array, "n *shape"], sigma: float | None = None
) -> ReturnDistribution:
    """The return distributions of stored observations; a planner's models have one action."""
    if isinstance(returns, Certified):
        return certified_distribution(returns, np.asarray(rows)[:, 0].astype(int), sigma)
    if isinstance(returns, CountedReturns):
        states = np.asarray(rows)[:, 0].astype(int)
        return certified_distribution(returns.certified, states, sigma).without_certificate()
    if isinstance(returns, TableReturns):
        return returns.distribution(rows)
    # Images are read in parts, as a network's layers take memory.
    n_parts = 1 if isinstance(rows, Tracer) else -(-rows.nbytes // _BYTES_AT_ONCE)
    if n_parts <= 1:
        return _learned_distribution(returns, rows)
    parts = [_learned_distribution(returns, part) for part in jnp.array_split(rows, n_parts)]
    shared = jax.tree.map(lambda a: a.ndim < 2, parts[0])
    return jax.tree.map(
        lambda alike, *each: each[0] if alike else jnp.concatenate(each), shared, *parts
    )


@eqx.filter_jit
def _learned_distribution(
    returns: LearnedReturns | AlongReturns, rows: Shaped[Array, "n *shape"]
) -> ReturnDistribution:
    return returns.distribution(rows)[:, 0]


@eqx.filter_jit
def joint_distribution(returns: LearnedReturns, rows: Shaped[Array, "n *shape"]) -> JointReturn:
    """Of stored observations."""
    return returns.distribution(rows)[:, 0]
