"""The Gaussian density as the kernels and the fields' scales need it."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def density(
    squared_distance: Float[Array, "*n"], variance: Float[Array, "*#n"] | float, rank: int
) -> Float[Array, "*n"]:
    """N(d; 0, variance · I) in `rank` dimensions, given |d|²."""
    return jnp.exp(-0.5 * squared_distance / variance) * peak(variance, rank)


def peak(variance: Float[Array, "*n"] | float, rank: int) -> Float[Array, "*n"]:
    """The largest value of that density, (2π · variance)^(−rank/2)."""
    return (2 * jnp.pi * jnp.asarray(variance)) ** (-rank / 2)
