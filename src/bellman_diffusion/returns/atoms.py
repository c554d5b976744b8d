"""Return distributions as atoms: C51's, quantiles, the planner's cells, de-smoothed weights."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jaxtyping import Array, Float

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.certificate import Certificate
from bellman_diffusion.returns.distribution import Points, ReturnDistribution

# Returns that differ by less than this share of the range are not told apart: single precision.
_TOLERANCE = 1e-6
# Up to this share of σ the density of a uniform part is that of a normal one of the same variance.
_NARROW = 0.2
# Atoms of at least this probability are drawn as stems.
_SHOWN = 0.02


class AtomicReturn(ReturnDistribution):
    """Masses at atoms, for a batch of states.

    An atom may be spread evenly over ± `half_width` around it: a cell that holds many returns.
    """

    mass: Float[Array, "*batch k"]
    """Not negative, of sum 1."""
    atoms: Float[Array, "*own k"]
    """In rising order; shared by the batch, or each state's own."""
    sigma: Float[Array, "*own_width"]
    """The smoothing of the density."""
    half_width: Float[Array, "*batch k"] | None = None
    coefficients: Float[Array, "*batch k"] | None = None
    """Of a sum of Gaussians N(atom, σ²) that is the smoothed density; they may be negative."""
    certificate: Certificate | None = None

    @classmethod
    def of_gaussians(cls, coefficients: Any, centres: Any, sigma: Any) -> "AtomicReturn":
        """The return whose smoothing by σ is Σ c_k N(μ_k, σ²): the same without the noise."""
        weights, atoms, width = (
            jnp.asarray(a, jnp.float32) for a in (coefficients, centres, sigma)
        )
        return cls(proper_mass(weights, atoms), atoms, width, coefficients=weights)

    @property
    def low(self) -> Float[Array, ""]:
        """The least return."""
        return (self.atoms - self._half()).min()

    @property
    def high(self) -> Float[Array, ""]:
        """The greatest return."""
        return (self.atoms + self._half()).max()

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch of states."""
        return self.mass.shape[:-1]

    @property
    def bounds(self) -> Certificate:
        """Intervals that hold by proof, where the distribution has them: exact planning's have."""
        if self.certificate is None:
            raise InvalidInputError(
                "there are no certified bounds: the distribution was learned from samples. Exact "
                "planning gives them"
            )
        return self.certificate

    def __getitem__(self, index: Any) -> "AtomicReturn":
        """The distributions of some of the states."""
        if not self.batch_shape:
            raise InvalidInputError(
                "this is the distribution of one state: there is nothing to choose from"
            )
        return AtomicReturn(
            self.mass[index],
            self.atoms if self.atoms.ndim == 1 else self.atoms[index],
            self.sigma if self.sigma.ndim == 0 else self.sigma[index],
            None if self.half_width is None else self.half_width[index],
            None if self.coefficients is None else self.coefficients[index],
            None
            if self.certificate is None
            else self.certificate.of_states(
                np.asarray(index) if isinstance(index, Array) else index
            ),
        )

    def without_certificate(self) -> "AtomicReturn":
        """The same masses, with no bounds that hold by proof."""
        return AtomicReturn(self.mass, self.atoms, self.sigma, self.half_width, self.coefficients)

    def mixture(self) -> "AtomicReturn":
        """One distribution: that of a state drawn from the batch, all being as likely."""
        n = len(self.mass)
        atoms = jnp.broadcast_to(self.atoms, self.mass.shape).reshape(-1)
        order = jnp.argsort(atoms)
        mass, half = (self.mass / n).reshape(-1), jnp.broadcast_to(self._half(), self.mass.shape)
        return AtomicReturn(
            mass[order], atoms[order], jnp.mean(self.sigma), half.reshape(-1)[order]
        )

    def cdf(self, x: Points) -> Float[Array, "..."]:
        """The mass of the atoms up to x."""
        return self._cdf(x, self._tolerance())

    def prob_below(self, x: float | Float[Array, ""]) -> Float[Array, "..."]:
        """The mass of the atoms below x."""
        return self._cdf(jnp.asarray(x, jnp.float32)[None], -self._tolerance())[..., 0]

    def quantile(self, q: Points | float) -> Float[Array, "..."]:
        """The least x with P(return ≤ x) ≥ q: an atom where there is one within rounding."""
        # Without the certificate, whose numbers would be part of a compiled program.
        bare = self.without_certificate()
        found = ReturnDistribution.quantile(bare, q)
        levels = found if jnp.ndim(q) else found[..., None]
        snapped = _nearest_atom(levels, self.atoms, self._half(), self._tolerance())
        return snapped if jnp.ndim(q) else snapped[..., 0]

    def mean(self) -> Float[Array, "..."]:
        """Σ m_k x_k."""
        return _moments(self.mass, self.atoms, self._half())[0]

    def var(self) -> Float[Array, "..."]:
        """Σ m_k ((x_k − mean)² + w_k²/3)."""
        return _moments(self.mass, self.atoms, self._half())[1]

    def pdf(self, x: Points, sigma: Any = None) -> Float[Array, "..."]:
        """The density of return + N(0, σ²)."""
        return _density(*self._smoothed(sigma), jnp.asarray(x, jnp.float32))[0]

    def gradient(self, x: Points, sigma: Any = None) -> Float[Array, "..."]:
        """The slope of that density."""
        return _density(*self._smoothed(sigma), jnp.asarray(x, jnp.float32))[1]

    def _smoothed(self, sigma: Any) -> tuple[Array, Array, Array, Array]:
        """Weights, centres and half-widths of the parts of the density, and σ."""
        if sigma is None and self.coefficients is not None:
            return self.coefficients, self.atoms, jnp.zeros_like(self.atoms), self.sigma
        width = self.sigma if sigma is None else jnp.asarray(sigma, jnp.float32)
        return self.mass, self.atoms, self._half(), width

    def _shortfall(self, b: Float[Array, "... n"]) -> Float[Array, "... n"]:
        return _expected_shortfall(self.mass, self.atoms, self._half(), b)

    def _cdf(self, x: Points, tolerance: Float[Array, ""]) -> Float[Array, "..."]:
        points = jnp.asarray(x, jnp.float32)
        return _distribution_function(self.mass, self.atoms, self._half(), points, tolerance)

    def _tolerance(self) -> Float[Array, ""]:
        return _TOLERANCE * _size(self.atoms, self._half())

    def _half(self) -> Float[Array, "..."]:
        return jnp.zeros_like(self.atoms) if self.half_width is None else self.half_width

    def split_atoms(self) -> tuple[np.ndarray, np.ndarray, "AtomicReturn"]:
        """Places and probabilities of the atoms that are drawn as such, and the rest."""
        mass, half = np.asarray(self.mass), np.broadcast_to(self._half(), self.mass.shape)
        # Learned weights stand for a density; an atom of theirs is one of the grid.
        shown = (mass >= _SHOWN) & (half <= _NARROW * float(self.sigma))
        shown &= self.certificate is not None
        rest = AtomicReturn(
            jnp.where(shown, 0.0, self.mass), self.atoms, self.sigma, self.half_width,
            self.coefficients,
        )  # fmt: skip
        return np.asarray(self.atoms)[shown], mass[shown], rest


@jax.jit
def _moments(mass: Array, atoms: Array, half: Array) -> tuple[Array, Array]:
    """Mean and variance."""
    mean = jnp.sum(mass * atoms, axis=-1)
    apart = atoms - mean[..., None]
    return mean, jnp.sum(mass * (apart**2 + half**2 / 3), axis=-1)


@jax.jit
def _size(atoms: Array, half: Array) -> Array:
    """The larger of the range and the largest return."""
    return jnp.maximum((atoms + half).max() - (atoms - half).min(), jnp.abs(atoms).max())


@jax.jit
def _nearest_atom(x: Array, atoms: Array, half: Array, tolerance: Array) -> Array:
    """Each x, or the atom without a width that it differs from by less than the tolerance."""
    atoms, half = atoms[..., None, :], half[..., None, :]
    apart = jnp.where(half > 0, jnp.inf, jnp.abs(x[..., None] - atoms))
    which = jnp.argmin(apart, axis=-1, keepdims=True)
    nearest = jnp.take_along_axis(jnp.broadcast_to(atoms, apart.shape), which, axis=-1)[..., 0]
    return jnp.where(apart.min(axis=-1) <= tolerance, nearest, x)


# In the functions of x, points come between the batch and the atoms.


@jax.jit
def _distribution_function(
    mass: Array, atoms: Array, half: Array, x: Array, tolerance: Array
) -> Array:
    """P(return ≤ x + tolerance)."""
    apart, half = x[..., None] - atoms[..., None, :], half[..., None, :]
    spread = jnp.clip((apart + half) / (2 * jnp.where(half > 0, half, 1)), 0, 1)
    share = jnp.where(half > 0, spread, apart + tolerance >= 0)
    return jnp.clip(jnp.sum(mass[..., None, :] * share, axis=-1), 0, 1)


@jax.jit
def _expected_shortfall(mass: Array, atoms: Array, half: Array, b: Array) -> Array:
    """E(b − return)₊."""
    apart, half = b[..., None] - atoms[..., None, :], half[..., None, :]
    inside = jnp.abs(apart) < half
    within = (apart + half) ** 2 / (4 * jnp.where(inside, half, 1))
    return jnp.sum(mass[..., None, :] * jnp.where(inside, within, jnp.maximum(apart, 0)), axis=-1)


@jax.jit
def _density(
    weights: Array, atoms: Array, half: Array, sigma: Array, x: Array
) -> tuple[Array, Array]:
    """The density of return + N(0, σ²) at x, and its slope."""
    sigma, half = sigma[..., None, None], half[..., None, :]
    apart, wide = x[..., None] - atoms[..., None, :], half > _NARROW * sigma
    # A narrow uniform part is as good as a normal one of the same variance.
    total = jnp.sqrt(sigma**2 + half**2 / 3)
    bell = stats.norm.pdf(apart, scale=total)
    upper, lower = ((apart + side * half) / sigma for side in (1, -1))
    width = 2 * jnp.where(wide, half, 1)
    mean = (stats.norm.cdf(upper) - stats.norm.cdf(lower)) / width
    slope = (stats.norm.pdf(upper) - stats.norm.pdf(lower)) / (sigma * width)
    parts = jnp.where(wide, mean, bell), jnp.where(wide, slope, -apart / total**2 * bell)
    density, gradient = (jnp.sum(weights[..., None, :] * part, axis=-1) for part in parts)
    return density, gradient


@jax.jit
def proper_mass(
    weights: Float[Array, "*batch k"], atoms: Float[Array, "*own k"]
) -> Float[Array, "*batch k"]:
    """Masses from signed weights of sum 1, with their mean where masses can have it.

    The least monotone CDF above that of the weights has a lower mean, the greatest one below it a
    higher mean: the masses are the mixture of the two that keeps the mean.
    """
    total = jnp.cumsum(weights, axis=-1)
    above = jax.lax.cummax(total, axis=total.ndim - 1)
    below = jax.lax.cummin(total, axis=total.ndim - 1, reverse=True)
    lower, higher = (
        jnp.diff(jnp.clip(cdf, 0, 1).at[..., -1].set(1.0), axis=-1, prepend=0.0)
        for cdf in (above, below)
    )
    mean, least, greatest = (jnp.sum(m * atoms, axis=-1) for m in (weights, lower, higher))
    room = greatest - least
    share = jnp.where(room > 0, (mean - least) / jnp.where(room > 0, room, 1), 0.5)
    share = jnp.clip(share, 0, 1)[..., None]
    return (1 - share) * lower + share * higher
