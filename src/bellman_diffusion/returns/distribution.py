"""What every planner and agent hands to the user: the return distribution of a state, or of many.

Every figure is that of the return itself, and no return lies outside of what is possible. Only the
density and its gradient, the paper's fields, need a smoothing where the return has atoms: they are
those of return + N(0, σ²), and `sigma` says how much that is.
"""

from abc import abstractmethod
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Key

from bellman_diffusion.dynamics import EulerMaruyama, Metropolis
from bellman_diffusion.dynamics import sample as run_dynamics
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.fields.base import AbstractField

_BISECTIONS = 40
_ATOMS = "atoms"
# Returns to evaluate a distribution at: JAX's arrays or NumPy's.
Points = Float[Array, "..."] | Float[np.ndarray, "..."]


class ReturnDistribution(eqx.Module):
    """One-dimensional distributions over a batch of states: every figure has the shape of the batch.

    Functions of x take points of shape (…, n) that broadcast against the batch.
    """

    sigma: eqx.AbstractVar[Float[Array, "..."]]

    def __repr__(self) -> str:
        name = type(self).__name__
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self)):
            return f"{name}(traced)"
        span = f"returns in [{float(self.low):.4g}, {float(self.high):.4g}]"
        mean, std = np.asarray(self.mean()), np.asarray(self.std())
        if not self.batch_shape:
            tail = float(self.cvar(0.1))
            return f"{name}(mean {mean:.4g}, std {std:.4g}, CVaR 10 % {tail:.4g}, {span})"
        states = " × ".join(str(n) for n in self.batch_shape)
        return f"{name}({states} states, means in [{mean.min():.4g}, {mean.max():.4g}], {span})"

    @property
    @abstractmethod
    def low(self) -> Float[Array, ""]:
        """No return is lower."""

    @property
    @abstractmethod
    def high(self) -> Float[Array, ""]:
        """No return is higher."""

    @property
    @abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch of states."""

    @abstractmethod
    def __getitem__(self, index: Any) -> "ReturnDistribution":
        """The distributions of some of the states."""

    @abstractmethod
    def pdf(self, x: Points, sigma: Any = None) -> Float[Array, "..."]:
        """The density of return + N(0, σ²), the scalar field; by default σ is `self.sigma`."""

    @abstractmethod
    def gradient(self, x: Points, sigma: Any = None) -> Float[Array, "..."]:
        """The gradient of that density: the gradient field."""

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
    def _shortfall(self, b: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """E(b − return)₊."""

    @abstractmethod
    def prob_below(self, x: float | Float[Array, ""]) -> Float[Array, "..."]:
        """P(return < x); a return of exactly x does not count."""

    def prob_at_most(self, x: float | Float[Array, ""]) -> Float[Array, "..."]:
        """P(return ≤ x); a return of exactly x counts."""
        return self.cdf(jnp.asarray(x, jnp.float32)[None])[..., 0]

    def std(self) -> Float[Array, "..."]:
        """The standard deviation."""
        return jnp.sqrt(jnp.maximum(self.var(), 0))

    def quantile(self, q: Points | float) -> Float[Array, "..."]:
        """The least x with P(return ≤ x) ≥ q, for one q, for n, or for n of each state (…, n)."""
        found = _bisect(self, jnp.atleast_1d(jnp.asarray(q, jnp.float32)))
        return found[..., 0] if jnp.ndim(q) == 0 else found

    def cvar(self, alpha: float) -> Float[Array, "..."]:
        """The mean of the worst share `alpha` of returns."""
        if not 0 < alpha <= 1:
            raise InvalidInputError(f"alpha is {alpha}: it must be in (0, 1]")
        if alpha == 1:
            return self.mean()
        # CVaR = max_b b − E(b − X)₊/α, and the quantile is where the maximum is.
        q = self.quantile(alpha)
        return q - self._shortfall(q[..., None])[..., 0] / alpha

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
        """Draw one state's return and give back the axes.

        Atoms of a probability of 2 % or more are stems of that height, on an axis of their own; the
        rest is drawn as the density of return + N(0, σ²). The mean is a dotted line.
        """
        if self.batch_shape:
            raise InvalidInputError(
                f"this holds the return distributions of {self.batch_shape} states: choose one, as in "
                "distribution[0].plot()"
            )
        if axes is None:
            import matplotlib.pyplot as plt  # noqa: PLC0415 (only a user at a screen needs it)

            axes = plt.subplots()[1]
        x = self.grid_of_returns(n_points)
        at, mass, rest = self.split_atoms()
        (line,) = axes.plot(x, rest.pdf(jnp.asarray(x)), **style)
        colour = line.get_color()
        axes.axvline(float(self.mean()), color=colour, linestyle=":", linewidth=1)
        axes.set(xlabel="return", ylabel=f"density (σ = {float(self.sigma):.2g})")
        if len(at):
            places = [a for a in axes.figure.axes if a.get_label() == _ATOMS]
            stems = next((a for a in places if a.bbox.bounds == axes.bbox.bounds), None)
            if stems is None:
                stems = axes.twinx()
                stems.set(ylabel="probability of an atom", ylim=(0, 1.05), label=_ATOMS)
            # Both axes start at zero, so that stems stand on the density's ground.
            axes.set_ylim(bottom=0)
            stems.vlines(at, 0, mass, color=colour, linewidth=2)
            stems.plot(at, mass, "o", color=colour, markersize=4)
        return axes

    def split_atoms(self) -> tuple[np.ndarray, np.ndarray, "ReturnDistribution"]:
        """Places and probabilities of the atoms that are drawn as such, and the rest."""
        return np.zeros(0), np.zeros(0), self

    def grid_of_returns(self, n_points: int = 400) -> Float[np.ndarray, " n"]:
        """Evenly spaced returns that cover the smoothed density of every state."""
        room = 3 * float(jnp.max(self.sigma))
        return np.linspace(float(self.low) - room, float(self.high) + room, n_points).astype(
            np.float32
        )


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
    # The right end: at an atom, where the CDF jumps over the level, it is the one that has reached it.
    return jax.lax.fori_loop(0, _BISECTIONS, halve, bounds)[1]


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
