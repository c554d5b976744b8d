"""The range of returns that a model covers: found from data, grown where probability overflows it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bellman_diffusion.returns.backup import BellmanBackup

# Room on each side of the returns seen, as a share of their range.
_ROOM = 0.1
# A bound on all returns is near if it is at most so many times what was seen.
_NEAR = 5.0


class Support(eqx.Module):
    """[low, high], and the rewards seen, which bound what it may grow to."""

    low: Float[Array, "*dim"]
    high: Float[Array, "*dim"]
    least: Float[Array, "*dim"]
    """No return can be lower, by the rewards seen: least reward / (1 − γ)."""
    greatest: Float[Array, "*dim"]

    @classmethod
    def fixed(
        cls, low: float | Float[np.ndarray, " dim"], high: float | Float[np.ndarray, " dim"]
    ) -> "Support":
        """A range that never grows; of a vector return one for each component."""
        values = (jnp.asarray(v, jnp.float32) for v in (low, high, low, high))
        return cls(*values)

    def widest(self) -> "Support":
        """All that the rewards seen allow, if they bound it: for models that cannot be rescaled."""
        low = jnp.where(jnp.isfinite(self.least), self.least, self.low)
        high = jnp.where(jnp.isfinite(self.greatest), self.greatest, self.high)
        return Support(low, high, self.least, self.greatest)

    @property
    def width(self) -> Float[Array, "*dim"]:
        """high − low."""
        return self.high - self.low


def first_support(
    reward: Float[Array, "time env"], ended: Float[Array, "time env"], gamma: float
) -> Support:
    """The range of discounted returns in some steps, with room; rewards bound how far it may grow."""
    returns = _returns(reward, ended, gamma)
    low, high = jnp.minimum(returns.min(), 0.0), jnp.maximum(returns.max(), 0.0)
    least, greatest = reward_bounds(reward, gamma)
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
    bounds: tuple[Array, Array],
    tolerance: float,
    step: float = 0.5,
) -> Support:
    """The support, wider by `step` of its width on each side that overflows by more than `tolerance`.

    `bounds` are those of `reward_bounds`; they limit the growth.
    """
    least = jnp.minimum(bounds[0], support.least)
    greatest = jnp.maximum(bounds[1], support.greatest)
    more = step * support.width
    low = jnp.where(below > tolerance, jnp.maximum(support.low - more, least), support.low)
    high = jnp.where(above > tolerance, jnp.minimum(support.high + more, greatest), support.high)
    return Support(low, high, least, greatest)


def reward_bounds(rewards: Float[Array, "..."], gamma: float) -> tuple[Array, Array]:
    """No return can lie outside of these, by the rewards seen; infinite without discount."""
    least, greatest = jnp.minimum(rewards.min(), 0.0), jnp.maximum(rewards.max(), 0.0)
    scale = jnp.inf if gamma == 1 else 1 / (1 - gamma)
    return (
        jnp.where(least < 0, least * scale, 0.0),
        jnp.where(greatest > 0, greatest * scale, 0.0),
    )


def _returns(
    reward: Float[Array, "time env"], ended: Float[Array, "time env"], gamma: float
) -> Float[Array, "time env"]:
    """Discounted returns to the episode's end or to the last step."""

    def back(next_return, step):
        reward, ended = step
        total = BellmanBackup(reward, gamma * (1 - ended)).returns(next_return)
        return total, total

    start = jnp.zeros(reward.shape[1])
    return jax.lax.scan(back, start, (reward, ended), reverse=True)[1]
