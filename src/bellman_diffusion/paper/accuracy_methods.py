"""Exact dynamic programming on atoms, basis functions and quantiles, for the public accuracy table."""

import jax.numpy as jnp
import numpy as np

from bellman_diffusion.errors import BellmanError
from bellman_diffusion.paper.processes import Process
from bellman_diffusion.planning.certify import Certified
from bellman_diffusion.planning.exact import solve
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.mdp import Chain
from bellman_diffusion.returns.projection import BasisProjection, CategoricalProjection
from bellman_diffusion.returns.quantiles import quantile_dynamic_programming
from bellman_diffusion.returns.tabulated import TabulatedReturn


def even_basis(truth: Certified, n: int) -> GaussianBasis:
    """n functions or atoms over the range of returns."""
    return GaussianBasis.on_interval(*support_of(truth), n)


def support_of(truth: Certified) -> tuple[float, float]:
    """What all methods that need one are given: the range of the returns of all states."""
    low, high = truth.range
    return float(np.clip(low, *_ends(truth))), float(np.clip(high, *_ends(truth)))


def _ends(truth: Certified) -> tuple[float, float]:
    return float(truth.limits[:, 0].min()), float(truth.limits[:, 1].max())


def solved_on_basis(
    chain: Chain, process: Process, projection: BasisProjection | CategoricalProjection
) -> ReturnDistribution | None:
    """Of the process's reported states; None where the updates diverge."""
    try:
        solution = solve(chain, process.gamma, projection)
    except BellmanError:
        return None
    basis, states = projection.basis, np.array(process.states)
    found = AtomicReturn.of_gaussians(
        solution.coefficients[states], basis.centres[:, 0], basis.sigma
    )
    if isinstance(projection, CategoricalProjection):
        return found
    # The plain update aims at the return's own density.
    room = 4 * basis.sigma
    grid = jnp.linspace(float(basis.low[0]) - room, float(basis.high[0]) + room, 4001)
    return TabulatedReturn.create(grid, found.pdf(grid), found.gradient(grid))


def quantile_atoms(chain: Chain, process: Process, n: int) -> AtomicReturn:
    """n quantiles of each reported state, by quantile dynamic programming."""
    atoms = quantile_dynamic_programming(chain, process.gamma, n)[np.array(process.states)]
    mass = jnp.full(atoms.shape, 1 / n)
    return AtomicReturn(mass, jnp.asarray(atoms, jnp.float32), jnp.asarray(0.01))
