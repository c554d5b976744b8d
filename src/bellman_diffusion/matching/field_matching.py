"""The paper's losses, up to constants (Propositions 3.1 and 3.2, the two boxed losses).

    L_grad = E[|g(x₁)|² + tr ∇g(x₁) κ(x₂ − x₁)],    L_id = E[s(x₁)² − 2 s(x₁) κ(x₂ − x₁)].

`ExactTrace` + `IsotropicKernel` is Proposition 3.1, `SlicedTrace` + `IsotropicKernel` is
Proposition 3.2, and `SlicedTrace` + `SlicedKernel` is Algorithm 1.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from bellman_diffusion.fields import AbstractField
from bellman_diffusion.fields.base import AnyField, RandomKey
from bellman_diffusion.matching.base import (
    AbstractObjective,
    Batch,
    BatchValues,
    FieldLosses,
    Others,
)
from bellman_diffusion.matching.kernels import AbstractKernel
from bellman_diffusion.matching.traces import AbstractTrace


class FieldMatching(AbstractObjective):
    """Field matching by integration by parts, averaged over `n_slices` draws of (v, w).

    On a finite set of rows the loss is not bounded below: g may fall steeply through every row, where
    tr ∇g → −∞ costs nothing. With `jitter` every point is drawn with fresh noise of that deviation, and
    the fields are those of p * N(0, jitter²).
    """

    kernel: AbstractKernel
    trace: AbstractTrace
    epsilon: float = eqx.field(static=True)
    pairs: Literal["matched", "all"] = eqx.field(static=True, default="matched")
    n_slices: int = eqx.field(static=True, default=1)
    jitter: float = eqx.field(static=True, default=0.0)

    def __call__(self, field: AnyField, key: RandomKey, x1: Batch, x2: Others) -> FieldLosses:
        """Both losses, averaged over the batch and over the slice draws."""
        assert isinstance(field, AbstractField), "field matching has no noise level"
        if self.jitter > 0:
            key, key_1, key_2 = jax.random.split(key, 3)
            x1 = x1 + self.jitter * jax.random.normal(key_1, x1.shape)
            x2 = x2 + self.jitter * jax.random.normal(key_2, x2.shape)
        draws = jax.vmap(lambda k: self._one_draw(field, k, x1, x2))
        return jax.tree.map(jnp.mean, draws(jax.random.split(key, self.n_slices)))

    def _one_draw(self, field: AbstractField, key: RandomKey, x1: Batch, x2: Others) -> FieldLosses:
        key_w, key_v = jax.random.split(key)
        kappa = self._kappa(key_w, x1, x2)
        keys = jax.random.split(key_v, x1.shape[0])
        norm, trace = jax.vmap(self.trace, in_axes=(None, 0, 0))(field, keys, x1)
        s = jax.vmap(field.scalar)(x1)
        return FieldLosses(
            gradient=jnp.mean(norm + trace * kappa), scalar=jnp.mean(s**2 - 2 * s * kappa)
        )

    def _kappa(self, key: RandomKey, x1: Batch, x2: Others) -> BatchValues:
        if self.pairs == "matched":
            return self.kernel.matched(key, x1, x2, self.epsilon)
        return self.kernel.all_pairs(key, x1, x2, jnp.full(x1.shape[0], self.epsilon))[0]
