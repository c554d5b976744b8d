"""What every planner and agent hands to the user: the return distribution of a state, or of many.

It is that of the return plus N(0, σ²): `sigma` says how much it is smoothed.
"""

from abc import abstractmethod
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from bellman_diffusion.dynamics import EulerMaruyama, Metropolis
from bellman_diffusion.dynamics import sample as run_dynamics
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.fields.base import AbstractField

_BISECTIONS = 40
# Returns to evaluate a distribution at: JAX's arrays or NumPy's.
Points = Float[Array, "..."] | Float[np.ndarray, "..."]


class ReturnDistribution(eqx.Module):
    """One-dimensional distributions over a batch of states: every figure has the shape of the batch.

    Functions of x take points of shape (…, n) that broadcast against the batch.
    """

    @property
    @abstractmethod
    def low(self) -> Float[Array, ""]:
        """Below this there is no probability, but for the tails of the smoothing."""

    @property
    @abstractmethod
    def high(self) -> Float[Array, ""]:
        """Above this there is none."""

    @property
    @abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch of states."""

    @abstractmethod
    def __getitem__(self, index: Any) -> "ReturnDistribution":
        """The distributions of some of the states."""

    @abstractmethod
    def pdf(self, x: Points) -> Float[Array, "..."]:
        """The density: the scalar field."""

    @abstractmethod
    def gradient(self, x: Points) -> Float[Array, "..."]:
        """The gradient field."""

    @abstractmethod
    def cdf(self, x: Points) -> Float[Array, "..."]:
        """P(return ≤ x)."""

    @abstractmethod
    def mean(self) -> Float[Array, "..."]:
        """The expected return."""

    @abstractmethod
    def var(self) -> Float[Array, "..."]:
        """The variance."""

    @abstractmethod
    def _mean_below(self, x: Float[Array, "... 1"]) -> Float[Array, "... 1"]:
        """E[X; X ≤ x]."""

    def prob_below(self, x: float | Float[Array, ""]) -> Float[Array, "..."]:
        """The probability of a return of at most x."""
        return self.cdf(jnp.asarray(x, jnp.float32)[None])[..., 0]

    def quantile(self, q: Points | float) -> Float[Array, "..."]:
        """The x with P(return ≤ x) = q, for one q, for n of them, or for n of each state (…, n)."""
        found = _bisect(self, jnp.atleast_1d(jnp.asarray(q, jnp.float32)))
        return found[..., 0] if jnp.ndim(q) == 0 else found

    def cvar(self, alpha: float) -> Float[Array, "..."]:
        """The mean of the worst share `alpha` of returns."""
        if not 0 < alpha <= 1:
            raise InvalidInputError(f"alpha is {alpha}: it must be in (0, 1]")
        if alpha == 1:
            return self.mean()
        q = self.quantile(alpha)[..., None]
        # The remaining mass alpha − cdf(q) is placed at q.
        return (self._mean_below(q) + (alpha - self.cdf(q)) * q)[..., 0] / alpha

    def sample(
        self,
        key: Key[Array, ""],
        n: int,
        method: Literal["inverse_cdf", "dynamics", "metropolis"] = "inverse_cdf",
    ) -> Float[Array, "... n"]:
        """n returns of each state: by the inverse CDF, or by the paper's dynamics on the fields.

        "dynamics" is Algorithm 2 (Euler–Maruyama); "metropolis" is the same with its steps accepted or
        rejected, which makes the weights exact.
        """
        if method == "inverse_cdf":
            return self.quantile(jax.random.uniform(key, (*self.batch_shape, n)))
        if self.batch_shape:
            keys = jax.random.split(key, self.batch_shape[0])
            return jnp.stack([self[i].sample(k, n, method) for i, k in enumerate(keys)])
        return self._run_dynamics(key, n, method)

    def _run_dynamics(self, key: Key[Array, ""], n: int, method: str) -> Float[Array, " n"]:
        """In units of the standard deviation, so that one step size suits returns of any scale."""
        mean, deviation = self.mean(), jnp.sqrt(self.var())
        field = StandardisedReturnField(self, mean, deviation)
        kind = Metropolis if method == "metropolis" else EulerMaruyama
        dynamics = kind(field=field, step_size=0.05, n_steps=1000)
        start_key, key = jax.random.split(key)
        start = jax.random.normal(start_key, (n, 1))
        return mean + deviation * jnp.asarray(run_dynamics(dynamics, key, start).x[:, 0])

    def plot(self, axes: Any = None, n_points: int = 400, **style: Any) -> Any:
        """Draw the density of one state's return, its mean as a dotted line, and return the axes."""
        if self.batch_shape:
            raise InvalidInputError(
                f"this holds the return distributions of {self.batch_shape} states: choose one, as in "
                "distribution[0].plot()"
            )
        if axes is None:
            import matplotlib.pyplot as plt  # noqa: PLC0415 (only a user at a screen needs it)

            axes = plt.subplots()[1]
        x = self.grid_of_returns(n_points)
        (line,) = axes.plot(x, self.pdf(jnp.asarray(x)), **style)
        axes.axvline(float(self.mean()), color=line.get_color(), linestyle=":", linewidth=1)
        axes.set(xlabel="return", ylabel="density")
        return axes

    def grid_of_returns(self, n_points: int = 400) -> Float[np.ndarray, " n"]:
        """Evenly spaced returns that cover the probability of every state."""
        return np.linspace(float(self.low), float(self.high), n_points).astype(np.float32)


@eqx.filter_jit
def _bisect(
    distribution: ReturnDistribution, levels: Float[Array, "*levels"]
) -> Float[Array, "..."]:
    """Where each CDF crosses the levels."""
    shape = (*distribution.batch_shape, levels.shape[-1])

    def halve(_, bounds):
        left, right = bounds
        middle = (left + right) / 2
        below = distribution.cdf(middle) < levels
        return jnp.where(below, middle, left), jnp.where(below, right, middle)

    bounds = (jnp.full(shape, distribution.low), jnp.full(shape, distribution.high))
    left, right = jax.lax.fori_loop(0, _BISECTIONS, halve, bounds)
    return (left + right) / 2


class StandardisedReturnField(AbstractField):
    """The fields of (X − mean)/deviation: what the samplers move on."""

    distribution: ReturnDistribution
    shift: Float[Array, ""]
    scale: Float[Array, ""]

    def scalar_and_gradient(
        self, x: Float[Array, " dim"]
    ) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
        """s and g, the density kept above zero where signed coefficients make it dip below."""
        at = self.shift + self.scale * x
        s = jnp.maximum(self.distribution.pdf(at)[0], 0) * self.scale
        return s, self.distribution.gradient(at) * self.scale**2
