"""How a backed-up distribution is put back into what a model can hold: the linear maps of planning.

Both kinds of model are rows of coefficients over fixed centres, and both projections are linear and
keep the mass and the mean:

- the Gaussian basis takes the nearest distribution in the Cramér or the L2 distance;
- C51's atoms share a point's mass between its two neighbours.

Everything the planners need is where a Gaussian N(a, variance) goes, for a set of a's.
"""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.basis import GaussianBasis, Objective


@runtime_checkable
class Projection(Protocol):
    """The linear map from distributions to coefficients."""

    basis: GaussianBasis

    def backed_up(
        self, reward: Float[np.ndarray, " dim"], gamma: float
    ) -> Float[np.ndarray, "k k"]:
        """Column j: the coefficients of the backup of basis function j."""
        ...

    def terminal(self, reward: Float[np.ndarray, " dim"]) -> Float[np.ndarray, " k"]:
        """The coefficients of the return after a terminal transition with this reward."""
        ...


class BasisProjection:
    """The nearest sum of Gaussians of the same mass and (unless `keep_mean` is off) mean."""

    def __init__(
        self,
        basis: GaussianBasis,
        objective: Objective = "cramer",
        *,
        noise_preserving: bool = True,
        keep_mean: bool = True,
    ) -> None:
        self.basis = basis
        self.objective: Objective = objective
        self.noise_preserving = noise_preserving
        constraints = [np.ones((1, len(basis.centres)))]
        if keep_mean:
            # Scaled like the rest of the system, for its conditioning.
            self._scale = np.maximum(np.abs(basis.centres).max(axis=0), 1e-300)
            constraints.append((basis.centres / self._scale).T)
        if objective == "l2" and not keep_mean:
            constraints = []
        self._constraints = constraints
        self._keep_mean = keep_mean
        gram = basis.inner(objective, basis.centres, basis.sigma**2)
        bound = np.concatenate(constraints) if constraints else np.zeros((0, len(gram)))
        zeros = np.zeros((len(bound), len(bound)))
        self._system = np.block([[gram, bound.T], [bound, zeros]])

    @classmethod
    def of_paper(cls, basis: GaussianBasis) -> "BasisProjection":
        """The paper's update: plain backups, fitted in the L2 distance of densities."""
        return cls(basis, "l2", noise_preserving=False, keep_mean=False)

    def gaussians(
        self, at: Float[np.ndarray, "n dim"], variance: float
    ) -> Float[np.ndarray, "k n"]:
        """The coefficients of N(a, variance·I) for each row a, moved into the centres' hull."""
        at = np.clip(at, self.basis.low, self.basis.high)
        right = [self.basis.inner(self.objective, at, variance)]
        if self._constraints:
            right.append(np.ones((1, len(at))))
        if self._keep_mean:
            right.append((at / self._scale).T)
        # Least squares: wide functions overlap until the system is singular in double precision.
        solution, *_ = np.linalg.lstsq(self._system, np.concatenate(right), rcond=1e-13)
        return solution[: len(self.basis.centres)]

    def backed_up(
        self, reward: Float[np.ndarray, " dim"], gamma: float
    ) -> Float[np.ndarray, "k k"]:
        """N(μ, σ²) becomes N(r + γμ, γ²σ²), and N(r + γμ, σ²) where the noise is preserved."""
        backup = BellmanBackup(reward, gamma, self.basis.dim)
        variance = self.basis.sigma**2
        if not self.noise_preserving:
            variance -= backup.lost_variance(self.basis.sigma)
        return self.gaussians(backup.returns(self.basis.centres), variance)

    def terminal(self, reward: Float[np.ndarray, " dim"]) -> Float[np.ndarray, " k"]:
        """N(r, σ²I)."""
        return self.gaussians(np.asarray(reward)[None], self.basis.sigma**2)[:, 0]


class CategoricalProjection:
    """C51: atoms on an even grid (a product of grids); σ only smooths what is reported."""

    def __init__(self, basis: GaussianBasis) -> None:
        self.basis = basis
        ticks = [np.unique(basis.centres[:, d]) for d in range(basis.dim)]
        self._spacing = np.array([t[1] - t[0] for t in ticks])

    def points(self, at: Float[np.ndarray, "n dim"]) -> Float[np.ndarray, "k n"]:
        """Each point's mass, shared between its neighbours along each axis by their distances."""
        at = np.clip(at, self.basis.low, self.basis.high)
        apart = (at[None] - self.basis.centres[:, None]) / self._spacing
        return np.prod(np.clip(1 - np.abs(apart), 0, 1), axis=-1)

    def backed_up(
        self, reward: Float[np.ndarray, " dim"], gamma: float
    ) -> Float[np.ndarray, "k k"]:
        """The atom at μ moves to r + γμ."""
        return self.points(BellmanBackup(reward, gamma, self.basis.dim).returns(self.basis.centres))

    def terminal(self, reward: Float[np.ndarray, " dim"]) -> Float[np.ndarray, " k"]:
        """All mass at r."""
        return self.points(np.asarray(reward)[None])[:, 0]
