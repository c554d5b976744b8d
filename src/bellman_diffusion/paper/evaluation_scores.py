"""How far a predicted return from the start distribution is from fresh returns."""

import jax.numpy as jnp
import msgspec
import numpy as np
from jaxtyping import Float

from bellman_diffusion.planning.conformal import calibrate, interval
from bellman_diffusion.planning.planned_returns import PlannedReturns, state_distribution
from bellman_diffusion.planning.transitions import Returns
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.distance import wasserstein

_LEVEL, _ALPHA = 0.9, 0.1
_AT_ONCE = 2000
_TINY = 1e-9


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of the return from the start distribution, as shares of the range of true returns."""

    w1: float | None
    mean: float
    quantile_05: float | None = None
    quantile_95: float | None = None
    cvar_10: float | None = None
    seconds: float = 0.0


def equally_likely(value: Float[np.ndarray, " n"]) -> AtomicReturn:
    """Equally likely returns, as a batch of one."""
    atoms = jnp.asarray(np.sort(value), jnp.float32)[None]
    return AtomicReturn(jnp.full(atoms.shape, 1 / len(value)), atoms, jnp.ones(()))


def mixture_of_starts(returns: PlannedReturns, rows: Float[np.ndarray, "n *shape"]) -> AtomicReturn:
    """The return from a start that is drawn from the rows, as a batch of one."""
    parts = [
        _predicted(returns, rows[i : i + _AT_ONCE]).mixture() for i in range(0, len(rows), _AT_ONCE)
    ]
    share = [len(rows[i : i + _AT_ONCE]) / len(rows) for i in range(0, len(rows), _AT_ONCE)]
    mass = np.concatenate([s * np.asarray(p.mass) for s, p in zip(share, parts, strict=True)])
    atoms, half = (
        np.concatenate([np.asarray(getattr(p, name)) for p in parts])
        for name in ("atoms", "half_width")
    )
    order = np.argsort(atoms)
    mass, atoms, half = (jnp.asarray(a[order])[None] for a in (mass, atoms, half))
    return AtomicReturn(mass, atoms, jnp.ones(()), half)


def _predicted(returns: PlannedReturns, rows: Float[np.ndarray, "n *shape"]) -> AtomicReturn:
    found = state_distribution(returns, jnp.asarray(rows))
    assert isinstance(found, AtomicReturn)
    return found


def score(predicted: AtomicReturn, truth: AtomicReturn) -> Score:
    """Of two batches of one."""
    width = max(float(truth.high - truth.low), _TINY)
    levels = jnp.asarray([0.05, 0.95])
    low, high = np.asarray(predicted.quantile(levels) - truth.quantile(levels), float)[0] / width
    return Score(
        w1=float(wasserstein(predicted, truth)[0]) / width,
        mean=float(predicted.mean()[0] - truth.mean()[0]) / width,
        quantile_05=float(low),
        quantile_95=float(high),
        cvar_10=float(predicted.cvar(_ALPHA)[0] - truth.cvar(_ALPHA)[0]) / width,
    )


def coverage_of_intervals(
    returns: PlannedReturns, observation: np.ndarray, value: np.ndarray, n: int
) -> tuple[float, float]:
    """Of 90 % intervals over n fresh episodes: the model's own, and conformal ones of n others."""
    held_out = Returns(observation[:n], value[:n], np.ones(n, bool), np.zeros(n))
    known = calibrate(_predicted(returns, held_out.observation), held_out)
    widening = next(c.widening for c in known if c.level == _LEVEL)
    fresh, actual = _predicted(returns, observation[n : 2 * n]), value[n : 2 * n]
    inside = []
    for wider in (0.0, widening):
        low, high = interval(fresh, _LEVEL, wider)
        inside.append(float(np.mean((actual >= low - 1e-9) & (actual <= high + 1e-9))))
    return inside[0], inside[1]
