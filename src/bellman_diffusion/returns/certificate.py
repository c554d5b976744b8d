"""Bounds on a return distribution that hold by proof.

Known are atoms x_k with masses m_k, and that the return is X = X̲ + D: X̲ is an atom, E[D | X̲ = x_k] = 0
and E[D² | X̲ = x_k] = v_k. Each bound is the extreme over all such X:

- P(X ≤ x): an atom at distance d counts on the wrong side with at most v/(v + d²) (Cantelli);
- E(b − X)₊ lies between that of the atoms and Σ m_k ½(b − x_k + √((b − x_k)² + v_k)) (Scarf), so
  CVaR_α = max_b b − E(b − X)₊/α is bounded too, and so is every spectral risk measure;
- W1(X̲, X) ≤ E|D| ≤ Σ m_k √v_k.

Floating point counts: `rounding` bounds the relative error of masses, and of places relative to the
largest return, after all updates; every interval is widened by it, and by the error bound of the mean.
Returns are compared with x up to the tolerance `resolution`.
"""

from typing import Any, NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float
from numba import njit, prange

from bellman_diffusion.errors import InvalidInputError

# Numbers, or arrays in the shape of the batch.
Figure = Any
Interval = tuple[Figure, Figure]
_BISECTIONS = 60


class Certificate(NamedTuple):
    """What is known of the returns of a batch of states."""

    mass: Float[np.ndarray, "*batch k"]
    atoms: Float[np.ndarray, "*batch k"]
    """In rising order."""
    variance: Float[np.ndarray, "*batch k"]
    """Of the return around each atom."""
    mean_and_error: Float[np.ndarray, "*batch 2"]
    var_and_error: Float[np.ndarray, "*batch 2"]
    limits: Float[np.ndarray, "*batch 2"]
    """No return is below or above these; they may be infinite."""
    rounding: float
    step: float = 0.0
    """All returns are multiples of this, if it is not 0."""

    def of_states(self, index: Any) -> "Certificate":
        """Of some of the states."""
        return Certificate._make([*(a[index] for a in self[:-2]), *self[-2:]])

    @property
    def resolution(self) -> float:
        """Returns that differ by less are not told apart."""
        spread = float(self.atoms.max() - self.atoms.min())
        return 1e-6 * max(spread, float(np.abs(self.atoms).max()))

    def mean(self) -> Interval:
        """Of the expected return."""
        value, error = np.moveaxis(self.mean_and_error, -1, 0)
        return value - error, value + error

    def var(self) -> Interval:
        """Of the variance."""
        value, error = np.moveaxis(self.var_and_error, -1, 0)
        return np.maximum(value - error, 0), value + error

    def std(self) -> Interval:
        """Of the standard deviation."""
        low, high = self.var()
        return np.sqrt(low), np.sqrt(high)

    def w1(self) -> Figure:
        """A bound on the Wasserstein distance between the atoms and the return."""
        return np.sum(self.mass * np.sqrt(self.variance), axis=-1) + self._slack()

    def shortfall(self, b: float) -> Interval:
        """Of E(b − return)₊, the building block of every spectral risk measure."""
        apart = b - self.atoms
        low = np.sum(self.mass * np.maximum(apart, 0), axis=-1)
        high = np.sum(self.mass * (apart + np.sqrt(apart**2 + self.variance)) / 2, axis=-1)
        slack = 2 * self._slack()
        return np.maximum(low - slack, 0.0), high + slack

    def prob_at_most(self, x: float) -> Interval:
        """Of P(return ≤ x)."""
        if self.step:
            # No return lies between two multiples: the middle decides, away from both.
            x = (np.floor((x + self.resolution) / self.step) + 0.5) * self.step
            return self._probability(x)
        return self._probability(x + self.resolution)

    def prob_below(self, x: float) -> Interval:
        """Of P(return < x)."""
        if self.step:
            x = (np.ceil((x - self.resolution) / self.step) - 0.5) * self.step
            return self._probability(x)
        return self._probability(x - self.resolution)

    def quantile(self, q: float) -> Interval:
        """Of the least x with P(return ≤ x) ≥ q."""
        if not 0 < q < 1:
            raise InvalidInputError(f"the level is {q}: it must be in (0, 1)")
        reach = np.sqrt(self.var()[1] / min(q, 1 - q)) + self._slack()
        least, greatest = self.limits[..., 0], self.limits[..., 1]
        centre = self.mean_and_error[..., 0]
        low = np.maximum(least, centre - 2 * reach)
        high = np.minimum(greatest, centre + 2 * reach)
        # The upper bound on the CDF crosses q first.
        first = self._crossing(low, high, q, upper=True)
        last = self._crossing(low, high, q, upper=False)
        slack = self._slack()
        low, high = np.maximum(first - slack, least), np.minimum(last + slack, greatest)
        if self.step:
            low = np.ceil(low / self.step - 1e-6) * self.step
            high = np.floor(high / self.step + 1e-6) * self.step
        return low, high

    def cvar(self, alpha: float, tail: str = "lower") -> Interval:
        """Of the mean of the worst share `alpha` of returns, or of the best with `tail="upper"`."""
        if not 0 < alpha <= 1:
            raise InvalidInputError(f"alpha is {alpha}: it must be in (0, 1]")
        if tail == "upper":
            low, high = self._mirrored().cvar(alpha)
            return -high, -low
        m, x, v = (a.reshape(-1, a.shape[-1]) for a in (self.mass, self.atoms, self.variance))
        low, high = (a.reshape(self.mass.shape[:-1]) for a in cvar_bounds(m, x, v, alpha))
        slack = self._slack() * (1 + 2 / alpha)
        least, greatest = self.limits[..., 0], self.limits[..., 1]
        return np.maximum(low - slack, least), np.minimum(high + slack, greatest)

    def _mirrored(self) -> "Certificate":
        """Of the negative return."""
        back = (..., slice(None, None, -1))
        flip = np.array([-1.0, 1.0])
        return Certificate(
            self.mass[back], -self.atoms[back], self.variance[back],
            self.mean_and_error * flip, self.var_and_error, -self.limits[back], *self[-2:],
        )  # fmt: skip

    def _slack(self) -> Figure:
        """What rounding and the mean's error may move a return's figure by."""
        scale = np.abs(self.atoms).max(axis=-1) + np.ptp(self.atoms, axis=-1)
        return self.rounding * scale + self.mean_and_error[..., 1]

    def _probability(self, x: Any) -> Interval:
        return self._cdf(x, upper=False), self._cdf(x, upper=True)

    def _cdf(self, x: Any, *, upper: bool) -> Figure:
        apart = np.asarray(x)[..., None] - self.atoms
        below = apart >= 0
        with np.errstate(invalid="ignore", divide="ignore"):
            crossing = np.where(self.variance > 0, self.variance / (self.variance + apart**2), 0.0)
        wrong = crossing if upper else -crossing
        share = np.where(below == upper, below, below + wrong)
        total = np.sum(self.mass * share, axis=-1)
        # No return lies outside the limits, whatever Cantelli allows.
        least, greatest = self.limits[..., 0], self.limits[..., 1]
        total = total + (self.rounding if upper else -self.rounding)
        return np.where(x < least, 0.0, np.where(x >= greatest, 1.0, np.clip(total, 0.0, 1.0)))

    def _crossing(self, low: Any, high: Any, q: float, *, upper: bool) -> Any:
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            enough = self._cdf(middle, upper=upper) >= q
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return low if upper else high


@njit(parallel=True, cache=True)
@no_type_check
def cvar_bounds(mass, atoms, variance, alpha):
    """CVaR of the lower tail of every state: a lower and an upper bound."""
    n_states, n = mass.shape
    low, high = np.empty(n_states), np.empty(n_states)
    for s in prange(n_states):
        m, x, v = mass[s], atoms[s], variance[s]
        left, total = alpha, 0.0
        least, greatest, widest = np.inf, -np.inf, 0.0
        for k in range(n):
            if m[k] > 0.0:
                taken = min(m[k], left)
                total += taken * x[k]
                left -= taken
                least, greatest = min(least, x[k]), max(greatest, x[k])
                widest = max(widest, v[k])
        high[s] = total / (alpha - left)
        # b − E(b − X)₊/α is concave in b, with the slope 1 − P/α. Any b gives a valid bound.
        a, b = least - np.sqrt(widest / alpha), greatest
        for _ in range(_BISECTIONS):
            middle, below = (a + b) / 2, 0.0
            for k in range(n):
                if m[k] > 0.0:
                    d = middle - x[k]
                    root = np.sqrt(d * d + v[k])
                    below += m[k] * (0.5 * (1.0 + d / root) if root > 0.0 else 1.0)
            if below < alpha:
                a = middle
            else:
                b = middle
        shortfall = 0.0
        for k in range(n):
            d = b - x[k]
            shortfall += m[k] * 0.5 * (d + np.sqrt(d * d + v[k]))
        low[s] = min(b - shortfall / alpha, high[s])
    return low, high
