"""The distributional Bellman equation (Section 2 and Appendix D): this is its only definition.

A transition with reward r and discount γ turns the return X' of the next state into X = r + γX'. In D
dimensions its density, the density's gradient and the CDF are

    p(x) = γ⁻ᴰ p'((x − r)/γ),    ∇p(x) = γ⁻ᴰ⁻¹ ∇p'((x − r)/γ),    F(x) = F'((x − r)/γ),

all **linear** in those of X', so an expectation over transitions is an expectation of backups. (The
paper leaves out the density's 1/γ in Section 2 and writes 1 for 1/γ² in Algorithm 3.)

The plain backup narrows a density by γ each time. The noise-preserving backup models X + N(0, σ²I): it
adds the variance (1 − γ²)σ² that γ removed, and its fixed point is the return distribution smoothed
once by σ.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

# A field of the return: a function of points, and the same function after a backup.
Field = Callable[[Any], Any]


class BellmanBackup(NamedTuple):
    """X = r + γX' for one transition, or for arrays of them; NumPy's arrays or JAX's.

    γ is 0 after a terminal transition: `returns` then gives r itself, and densities do not exist.
    """

    reward: Any
    discount: Any
    dim: int = 1
    """The dimension of a return."""

    def returns(self, next_returns: Any) -> Any:
        """r + γx: where returns (atoms, centres, quantiles, means) of the next state move to."""
        return self.reward + self.discount * next_returns

    def preimage(self, returns: Any) -> Any:
        """(x − r)/γ: the return of the next state that becomes x."""
        return (returns - self.reward) / self.discount

    def density(self, next_density: Field) -> Field:
        """γ⁻ᴰ p'((x − r)/γ)."""
        return lambda x: next_density(self.preimage(x)) / self.discount**self.dim

    def gradient(self, next_gradient: Field) -> Field:
        """γ⁻ᴰ⁻¹ ∇p'((x − r)/γ)."""
        return lambda x: next_gradient(self.preimage(x)) / self.discount ** (self.dim + 1)

    def cdf(self, next_cdf: Field) -> Field:
        """F'((x − r)/γ)."""
        return lambda x: next_cdf(self.preimage(x))

    def lost_variance(self, sigma: Any) -> Any:
        """(1 − γ²)σ²: what the noise-preserving backup adds along each axis."""
        return (1 - self.discount**2) * sigma**2
