"""The range of returns that a model covers: found from what was seen, grown where mass spills over."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.agents.replay import Rows

# Room on each side of the returns seen, in shares of their range.
_ROOM = 0.1
# A bound on all returns is near if it is at most so many times what was seen.
_NEAR = 5.0


class Support(eqx.Module):
    """[low, high], and the rewards seen, which bound what it may grow to."""

    low: Float[Array, ""]
    high: Float[Array, ""]
    least: Float[Array, ""]
    """No return can be lower, by the rewards seen: least reward / (1 − γ)."""
    greatest: Float[Array, ""]

    @classmethod
    def fixed(cls, low: float, high: float) -> "Support":
        """A range that never grows."""
        values = (jnp.asarray(v, jnp.float32) for v in (low, high, low, high))
        return cls(*values)

    def widest(self) -> "Support":
        """All that the rewards seen allow, where they bound it: for models that cannot be moved."""
        low = jnp.where(jnp.isfinite(self.least), self.least, self.low)
        high = jnp.where(jnp.isfinite(self.greatest), self.greatest, self.high)
        return Support(low, high, self.least, self.greatest)

    @property
    def width(self) -> Float[Array, ""]:
        """From end to end."""
        return self.high - self.low


def first_support(rows: Rows, gamma: float) -> Support:
    """The range of discounted returns in some rows, with room; the rewards say how far it may grow."""
    returns = _returns(rows, gamma)
    low, high = jnp.minimum(returns.min(), 0.0), jnp.maximum(returns.max(), 0.0)
    least, greatest = _bounds(rows.reward, gamma)
    room = _ROOM * (high - low)
    # A bound that is near is taken at once: growing later disturbs what was learned.
    low = jnp.where(least >= _NEAR * low, least, jnp.maximum(low - room, least))
    high = jnp.where(greatest <= _NEAR * high, greatest, jnp.minimum(high + room, greatest))
    # Rewards that are all zero say nothing; any range will do until there are others.
    empty = high - low < 1e-6
    low, high = jnp.where(empty, low - 0.5, low), jnp.where(empty, high + 0.5, high)
    return Support(low, high, jnp.minimum(least, low), jnp.maximum(greatest, high))


def grown(
    support: Support,
    below: Float[Array, ""],
    above: Float[Array, ""],
    rewards: Float[Array, "..."],
    gamma: float,
    tolerance: float,
) -> Support:
    """Half as wide again on each side over which more than `tolerance` of the range spills."""
    least, greatest = _bounds(rewards, gamma)
    least, greatest = jnp.minimum(least, support.least), jnp.maximum(greatest, support.greatest)
    more = 0.5 * support.width
    low = jnp.where(below > tolerance, jnp.maximum(support.low - more, least), support.low)
    high = jnp.where(above > tolerance, jnp.minimum(support.high + more, greatest), support.high)
    return Support(low, high, least, greatest)


def _bounds(rewards: Float[Array, "..."], gamma: float) -> tuple[Array, Array]:
    least, greatest = jnp.minimum(rewards.min(), 0.0), jnp.maximum(rewards.max(), 0.0)
    # Without discount the rewards bound nothing.
    scale = jnp.inf if gamma == 1 else 1 / (1 - gamma)
    return (
        jnp.where(least < 0, least * scale, 0.0),
        jnp.where(greatest > 0, greatest * scale, 0.0),
    )


def _returns(rows: Rows, gamma: float) -> Float[Array, "time env"]:
    """Discounted returns to the episode's end or to the last row."""

    def back(following, row):
        reward, ended = row
        total = reward + gamma * (1 - ended) * following
        return total, total

    start = jnp.zeros(rows.reward.shape[1])
    return jax.lax.scan(back, start, (rows.reward, rows.ended), reverse=True)[1]
