"""Random directions v with E[vvᵀ] = I, for which E[vᵀAv] = tr A and E[(v·g)²] = |g|²."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.fields.base import RandomKey

SliceDistribution = Literal["rademacher", "gaussian", "sphere"]
SLICE_DISTRIBUTIONS: tuple[SliceDistribution, ...] = get_args(SliceDistribution)


def draw_slices(kind: SliceDistribution, key: RandomKey, n: int, dim: int) -> Float[Array, "n dim"]:
    """`n` directions of `dim` coordinates; the sphere's have length √dim."""
    if kind == "rademacher":
        return jax.random.rademacher(key, (n, dim), jnp.float32)
    normal = jax.random.normal(key, (n, dim))
    if kind == "gaussian":
        return normal
    return normal * (dim**0.5 / jnp.linalg.norm(normal, axis=1, keepdims=True))
