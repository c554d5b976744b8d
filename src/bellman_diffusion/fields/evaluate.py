"""Fields at many points, for callers outside of a jitted program."""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from bellman_diffusion.blocks import in_blocks
from bellman_diffusion.fields.base import AbstractField

_BLOCK = 1024


def evaluate(
    field: AbstractField, x: Float[np.ndarray, "n dim"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n dim"]]:
    """s and g at each row."""
    return in_blocks(lambda _, rows: _fields(field, rows), x, _BLOCK)


def evaluate_score(
    field: AbstractField, x: Float[np.ndarray, "n dim"]
) -> Float[np.ndarray, "n dim"]:
    """∇log p at each row."""
    return in_blocks(lambda _, rows: _score(field, rows), x, _BLOCK)


@eqx.filter_jit
def _fields(
    field: AbstractField, x: Float[Array, "n dim"]
) -> tuple[Float[Array, " n"], Float[Array, "n dim"]]:
    return jax.vmap(field.scalar_and_gradient)(x)


@eqx.filter_jit
def _score(field: AbstractField, x: Float[Array, "n dim"]) -> Float[Array, "n dim"]:
    return jax.vmap(field.score)(x)
