"""One network for both fields: g = ∇s by automatic differentiation.

With g = ∇s the flux of the dynamics vanishes at q ∝ s, so the samples follow s itself. That is the
paper's limit ε → 0, where s = p and g = ∇p; for a wide kernel the samples are those of ρ, not of p.
"""

import equinox as eqx
import jax

from bellman_diffusion.fields.base import AbstractField, Point, PointFields, RandomKey
from bellman_diffusion.fields.networks import mlp


class ConservativeField(AbstractField):
    """s = softplus(MLP), g = ∇s."""

    scalar_network: eqx.nn.MLP

    @classmethod
    def create(
        cls, key: RandomKey, dim: int, width: int = 128, depth: int = 3
    ) -> "ConservativeField":
        """A random network with `depth` hidden layers of `width` units."""
        return cls(mlp(key, dim, "scalar", width, depth))

    def scalar_and_gradient(self, x: Point) -> PointFields:
        """s(x) and its gradient."""
        return jax.value_and_grad(lambda y: jax.nn.softplus(self.scalar_network(y)))(x)
