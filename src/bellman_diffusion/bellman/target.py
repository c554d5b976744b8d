"""The Bellman target of a batch of transitions, for any rewards, inside a jitted step.

r + γX' moves the centre μ_k to r + γμ_k. Where a Gaussian at any place goes under the projection is
tabulated once on a fine grid; a moved centre's mass is spread over the grid by interpolation weights,
and one matrix product ends it. A terminal transition moves every centre to r.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bellman_diffusion.bellman.projection import BasisProjection, CategoricalProjection

# Cubic interpolation of a Gaussian on a grid this fine errs by less than 1e-5 of its height.
_POINTS_PER_FUNCTION = 4


class BellmanTarget(eqx.Module):
    """From the coefficients of what follows to those of the target."""

    centres: Float[Array, " k"]
    table: Float[Array, "grid k"]
    low: Float[Array, ""]
    step: Float[Array, ""]
    gamma: Float[Array, ""]
    cubic: bool = eqx.field(static=True)

    @classmethod
    def create(
        cls, projection: BasisProjection | CategoricalProjection, gamma: float
    ) -> "BellmanTarget":
        """Tabulate the projection, one-dimensional."""
        centres = projection.basis.centres[:, 0]
        if isinstance(projection, CategoricalProjection):
            grid, cubic = centres, False
            table = np.eye(len(centres))
        else:
            grid = np.linspace(
                centres[0], centres[-1], _POINTS_PER_FUNCTION * (len(centres) - 1) + 1
            )
            table = projection.gaussians(grid[:, None], projection.basis.sigma**2).T
            cubic = True
        arrays = (centres, table, grid[0], grid[1] - grid[0], gamma)
        return cls(*(jnp.asarray(a, jnp.float32) for a in arrays), cubic=cubic)

    def __call__(
        self,
        following: Float[Array, "batch k"],
        reward: Float[Array, " batch"],
        terminated: Float[Array, " batch"],
    ) -> Float[Array, "batch k"]:
        """The coefficients of r + γX', or of r alone at an end."""
        discount = (self.gamma * (1 - terminated))[:, None]
        place = (reward[:, None] + discount * self.centres - self.low) / self.step
        n = self.table.shape[0]
        place = jnp.clip(place, 0, n - 1)
        nodes, weights = _cubic(place, n) if self.cubic else _linear(place, n)
        spread = jax.vmap(lambda i, w: jnp.zeros(n).at[i.reshape(-1)].add(w.reshape(-1)))
        return spread(nodes, weights * following[..., None]) @ self.table


def _linear(place: Float[Array, "batch k"], n: int) -> tuple[Array, Array]:
    left = jnp.clip(jnp.floor(place), 0, n - 2)
    t = place - left
    nodes = left.astype(jnp.int32)[..., None] + jnp.arange(2)
    return nodes, jnp.stack([1 - t, t], axis=-1)


def _cubic(place: Float[Array, "batch k"], n: int) -> tuple[Array, Array]:
    """Lagrange's weights on four nodes: they keep mass, mean, variance and skew of what is moved."""
    left = jnp.clip(jnp.floor(place), 1, n - 3)
    t = place - left
    nodes = left.astype(jnp.int32)[..., None] + jnp.arange(-1, 3)
    weights = (
        -t * (t - 1) * (t - 2) / 6,
        (t + 1) * (t - 1) * (t - 2) / 2,
        -(t + 1) * t * (t - 2) / 2,
        (t + 1) * t * (t - 1) / 6,
    )
    return nodes, jnp.stack(weights, axis=-1)
