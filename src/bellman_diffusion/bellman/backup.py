"""The Bellman backup of a return's fields (Section 2.1 and Appendix D), with the right constants.

One transition with reward r takes the law of X' to the law of X = r + γX' (+ noise). Its density,
gradient and CDF are **linear** in those of X', so a mean over transitions is a mean of backups:

    s(x) = γ⁻ᴰ s'((x − r)/γ),    g(x) = γ⁻ᴰ⁻¹ g'((x − r)/γ),    F(x) = F'((x − r)/γ).

(The paper leaves out the density's 1/γ in Section 2 and writes 1 for 1/γ² in Algorithm 3.)

The plain backup narrows a density by γ each time. The noise-preserving one models X + N(0, σ²I): it
adds the noise N(0, (1 − γ²)σ²I) that γ took away, and its fixed point is the return's law smoothed
once by σ.
"""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# A field at one point x of R^D: a scalar (s, F) or a vector (g).
Point = Float[Array, " dim"]
FieldAt = Callable[[Point], Array]
Kind = Literal["scalar", "gradient", "cdf"]


class Backup(eqx.Module):
    """r + γX' for one reward, or the terminal law N(r, σ²I)."""

    gamma: float
    sigma: float
    noise_preserving: bool = eqx.field(static=True, default=True)
    n_nodes: int = eqx.field(static=True, default=32)
    """Nodes along each axis of the Gauss–Hermite rule that adds the noise back."""

    def scalar(self, following: FieldAt, reward: Point) -> FieldAt:
        """The backup of a density s'."""
        return self._backup(following, reward, "scalar")

    def gradient(self, following: FieldAt, reward: Point) -> FieldAt:
        """The backup of a density's gradient g'."""
        return self._backup(following, reward, "gradient")

    def cdf(self, following: FieldAt, reward: Point) -> FieldAt:
        """The backup of a CDF F'."""
        return self._backup(following, reward, "cdf")

    def terminal_scalar(self, reward: Point) -> FieldAt:
        """The density of N(r, σ²I): nothing follows the reward."""
        return lambda x: jnp.prod(jax.scipy.stats.norm.pdf(x, reward, self.sigma))

    def terminal_gradient(self, reward: Point) -> FieldAt:
        """The gradient of that density."""
        return jax.grad(self.terminal_scalar(reward))

    def terminal_cdf(self, reward: Point) -> FieldAt:
        """The CDF of N(r, σ²I)."""
        return lambda x: jnp.prod(jax.scipy.stats.norm.cdf(x, reward, self.sigma))

    def _backup(self, following: FieldAt, reward: Point, kind: Kind) -> FieldAt:
        def moved(x: Point) -> Array:
            power = {"scalar": x.shape[0], "gradient": x.shape[0] + 1, "cdf": 0}[kind]
            return following((x - reward) / self.gamma) / self.gamma**power

        return self._with_noise(moved) if self.noise_preserving else moved

    def _with_noise(self, field: FieldAt) -> FieldAt:
        """The mean of field(x − √(1 − γ²) σ n) over n ~ N(0, I)."""
        width = jnp.sqrt(1 - jnp.square(self.gamma)) * self.sigma

        def smoothed(x: Point) -> Array:
            nodes, weights = _hermite(self.n_nodes, x.shape[0])
            return jnp.tensordot(weights, jax.vmap(lambda n: field(x - width * n))(nodes), axes=1)

        return smoothed


def _hermite(n_nodes: int, dim: int) -> tuple[Float[Array, "n dim"], Float[Array, " n"]]:
    """Nodes and weights of the mean over N(0, I) in `dim` dimensions."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    weights = weights / weights.sum()
    grid = np.stack(np.meshgrid(*[nodes] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    product = np.prod(np.stack(np.meshgrid(*[weights] * dim, indexing="ij"), -1), axis=-1)
    return jnp.asarray(grid), jnp.asarray(product.reshape(-1))
