"""The networks' activation."""

import jax
from jaxtyping import Array, Float


def silu(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """x · sigmoid(x). A plain function, so that a fitted estimator can be pickled."""
    return x * jax.nn.sigmoid(x)
