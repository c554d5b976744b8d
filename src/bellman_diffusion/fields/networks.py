"""The one kind of network that every field is made of."""

from typing import Literal

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key


def mlp(
    key: Key[Array, ""], n_in: int, n_out: int | Literal["scalar"], width: int, depth: int
) -> eqx.nn.MLP:
    """A network with `depth` hidden layers of `width` units.

    Its activations are plain functions of this module, so that a fitted estimator can be pickled.
    """
    return eqx.nn.MLP(n_in, n_out, width, depth, silu, identity, key=key)


def silu(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """x · sigmoid(x)."""
    return x * jax.nn.sigmoid(x)


def identity(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """x."""
    return x
