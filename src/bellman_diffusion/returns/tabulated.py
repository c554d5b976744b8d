"""Return distributions from networks s(x, z), g(x, z): tabulated, integrated by trapezoids."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.distribution import Points, ReturnDistribution


class TabulatedReturn(ReturnDistribution):
    """The two fields on an even grid of returns.

    A network's s need not have mass 1: `mass` keeps what it had; the distribution is normalised.
    """

    grid: Float[Array, " n"]
    scalar: Float[Array, "*batch n"]
    slope: Float[Array, "*batch n"]
    mass: Float[Array, "*batch"]
    sigma: Float[Array, ""] = eqx.field(default_factory=lambda: jnp.zeros(()))
    """Networks have a density of their own: it is smoothed no further."""

    @classmethod
    def create(
        cls,
        grid: Float[Array, " n"],
        scalar: Float[Array, "*batch n"],
        slope: Float[Array, "*batch n"],
    ) -> "TabulatedReturn":
        """Normalise the fields of a batch of states."""
        mass = jnp.trapezoid(scalar, grid, axis=-1)
        total = jnp.maximum(mass, 1e-12)[..., None]
        return cls(grid=grid, scalar=scalar / total, slope=slope / total, mass=mass)

    @property
    def low(self) -> Float[Array, ""]:
        """The least return of the grid."""
        return self.grid[0]

    @property
    def high(self) -> Float[Array, ""]:
        """The greatest return of the grid."""
        return self.grid[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch of states."""
        return self.scalar.shape[:-1]

    def __getitem__(self, index: Any) -> "TabulatedReturn":
        """The distributions of some of the states."""
        if not self.batch_shape:
            raise InvalidInputError(
                "this is the distribution of one state: there is nothing to choose from"
            )
        return TabulatedReturn(
            grid=self.grid,
            scalar=self.scalar[index],
            slope=self.slope[index],
            mass=self.mass[index],
        )

    def smoothed(self, width: float, n_points: int = 1000) -> "TabulatedReturn":
        """The fields of the return plus N(0, width²): both are averaged alike, for both are linear."""
        inner = jnp.linspace(self.low, self.high, n_points)
        outer = jnp.linspace(self.low - 6 * width, self.high + 6 * width, n_points)
        weight = jax.scipy.stats.norm.pdf(outer, inner[:, None], width) * (inner[1] - inner[0])
        # The trapezoidal rule counts its ends half.
        weight = weight.at[jnp.array([0, -1])].multiply(0.5)
        return TabulatedReturn.create(
            outer, self.pdf(inner) @ weight, self.gradient(inner) @ weight
        )

    def pdf(self, x: Points, sigma: Any = None) -> Float[Array, "..."]:
        """s, normalised; zero outside the grid. It is smoothed already: `sigma` is not used."""
        del sigma
        return self._at(x, self.scalar, 0.0, 0.0)

    def gradient(self, x: Points, sigma: Any = None) -> Float[Array, "..."]:
        """g, with the same factor."""
        del sigma
        return self._at(x, self.slope, 0.0, 0.0)

    def cdf(self, x: Points) -> Float[Array, "..."]:
        """The integral of s."""
        return self._at(x, self._integral(self.scalar), 0.0, 1.0)

    def mean(self) -> Float[Array, "..."]:
        """∫ x s."""
        return jnp.trapezoid(self.grid * self.scalar, self.grid, axis=-1)

    def var(self) -> Float[Array, "..."]:
        """∫ (x − mean)² s."""
        apart = self.grid - self.mean()[..., None]
        return jnp.trapezoid(apart**2 * self.scalar, self.grid, axis=-1)

    def prob_below(self, x: float | Float[Array, ""]) -> Float[Array, "..."]:
        """The same as P(return ≤ x): there are no atoms."""
        return self.prob_at_most(x)

    def _shortfall(self, b: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """The integral of the CDF up to b."""
        return self._at(
            b, self._integral(self._integral(self.scalar)), 0.0, self.high - self.mean()
        )

    def _integral(self, values: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        step = self.grid[1] - self.grid[0]
        pieces = (values[..., 1:] + values[..., :-1]) * step / 2
        return jnp.concatenate([jnp.zeros_like(values[..., :1]), jnp.cumsum(pieces, -1)], axis=-1)

    def _at(self, x: Any, values: Any, left: Any, right: Any) -> Float[Array, "..."]:
        x = jnp.asarray(x)
        rows = values.reshape(-1, self.grid.shape[0])
        points = jnp.broadcast_to(x, (*self.batch_shape, x.shape[-1])).reshape(rows.shape[0], -1)
        ends = jnp.broadcast_to(jnp.asarray(right), self.batch_shape).reshape(-1)
        found = jax.vmap(lambda p, row, end: jnp.interp(p, self.grid, row, left=left, right=end))(
            points, rows, ends
        )
        return found.reshape(*self.batch_shape, x.shape[-1])
