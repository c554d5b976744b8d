"""Run a sampler on any number of paths and say what became of them."""

import math
import warnings
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bellman_diffusion.blocks import in_blocks
from bellman_diffusion.dynamics.base import AbstractDynamics, Paths
from bellman_diffusion.errors import SamplingFailedError
from bellman_diffusion.fields.base import RandomKey

# Small enough for the activations of a block to stay in the processor's cache.
LARGEST_BLOCK = 512


class Box(NamedTuple):
    """The region where samples are expected."""

    low: Float[np.ndarray, " dim"]
    high: Float[np.ndarray, " dim"]

    @classmethod
    def around(cls, data: Float[np.ndarray, "rows dim"], margin: float = 0.5) -> "Box":
        """The data's bounding box, widened on each side by `margin` of its extent.

        The margin allows for what a fresh draw of the data may do: of 100 rows in 10 dimensions a
        fifth of fresh ones leave the plain bounding box.
        """
        low, high = data.min(axis=0), data.max(axis=0)
        extent = high - low
        return cls(low - margin * extent, high + margin * extent)

    def contains(self, x: Float[np.ndarray, "n dim"]) -> np.ndarray:
        """Which rows lie inside."""
        return np.all((x >= self.low) & (x <= self.high), axis=1)


class Samples(NamedTuple):
    """Where the paths ended and how they fared."""

    x: Float[np.ndarray, "n dim"]
    n_nonfinite: int
    n_outside: int
    acceptance: float

    @property
    def lost(self) -> float:
        """The share of paths that were not finite or left the box."""
        return (self.n_nonfinite + self.n_outside) / max(len(self.x), 1)


def sample(
    dynamics: AbstractDynamics,
    key: RandomKey,
    start: Float[Array, "n dim"] | Float[np.ndarray, "n dim"],
    *,
    box: Box | None = None,
    max_lost: float = 0.01,
) -> Samples:
    """Run every path from its row of `start` for `dynamics.n_steps` steps.

    Raises `SamplingFailedError` when more than `max_lost` of the paths are not finite or end outside
    `box`; fewer are counted in the result and left in place.
    """
    start = np.asarray(start, np.float32)
    n = start.shape[0]
    # About half of a small sample, so that two cores share it; a power of two, so that samples of
    # about one size share a program.
    block = min(LARGEST_BLOCK, 2 ** math.ceil(math.log2(max(n / 2, 1))))
    x, acceptance = in_blocks(
        lambda i, rows: _run(dynamics, jax.random.fold_in(key, i), rows), start, block
    )
    finite = np.all(np.isfinite(x), axis=1)
    outside = 0 if box is None else int(np.sum(finite & ~box.contains(x)))
    result = Samples(x, int(np.sum(~finite)), outside, float(np.mean(acceptance)))
    if result.lost > max_lost:
        raise SamplingFailedError(
            f"{result.n_nonfinite} of {n} paths are not finite and {outside} left "
            f"the data's box ({result.lost:.1%}; at most {max_lost:.1%} is allowed). The step size is "
            "too large or the fields are wrong off the data: lower step_size, train longer, use the "
            "'default' preset, or raise max_lost to look at the samples all the same."
        )
    if result.n_nonfinite:
        warnings.warn(
            f"{result.n_nonfinite} of {n} paths are not finite", RuntimeWarning, stacklevel=2
        )
    return result


@eqx.filter_jit
def _run(
    dynamics: AbstractDynamics, key: RandomKey, start: Paths
) -> tuple[Paths, Float[Array, " paths"]]:
    def body(carry, step_key):
        state, accepted = carry
        state, info = dynamics.step(step_key, state)
        return (state, accepted + info.accepted), None

    carry = (dynamics.init(start), jnp.zeros(start.shape[0]))
    keys = jax.random.split(key, dynamics.n_steps)
    (state, accepted), _ = jax.lax.scan(body, carry, keys)
    return state.position, accepted / dynamics.n_steps


def trace(
    dynamics: AbstractDynamics, key: RandomKey, start: Float[np.ndarray, "paths dim"], n_frames: int
) -> tuple[np.ndarray, Float[np.ndarray, "frames paths dim"]]:
    """Where the paths are at about `n_frames` moments: after how many steps, and the positions."""
    frames = np.unique(np.linspace(0, dynamics.n_steps, n_frames).round().astype(int))
    steps = jnp.asarray(np.diff(frames, prepend=0))
    return frames, np.asarray(_trace(dynamics, key, jnp.asarray(start), steps))


@eqx.filter_jit
def _trace(
    dynamics: AbstractDynamics, key: RandomKey, start: Paths, steps: Int[Array, " frames"]
) -> Float[Array, "frames paths dim"]:
    def one(i, carry):
        state, done, key = carry
        return dynamics.step(jax.random.fold_in(key, done), state)[0], done + 1, key

    def frame(carry, n):
        carry = jax.lax.fori_loop(0, n, one, carry)
        return carry, carry[0].position

    return jax.lax.scan(frame, (dynamics.init(start), jnp.asarray(0), key), steps)[1]
