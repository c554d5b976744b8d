"""Where paths start: a normal distribution or the data; a user's own array needs no help."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.fields.base import RandomKey


def normal_start(
    key: RandomKey, n: int, covariance: Float[Array, "dim dim"]
) -> Float[Array, "n dim"]:
    """`n` draws of N(0, covariance)."""
    noise = jax.random.normal(key, (n, covariance.shape[0]))
    return noise @ jnp.linalg.cholesky(covariance).T


def data_start(key: RandomKey, n: int, data: Float[Array, "rows dim"]) -> Float[Array, "n dim"]:
    """`n` rows of the data, drawn with replacement."""
    return data[jax.random.randint(key, (n,), 0, data.shape[0])]
