"""The paper's field: two independent networks (Section 3.1)."""

import equinox as eqx
import jax

from bellman_diffusion.fields.base import AbstractField, Point, PointFields, RandomKey
from bellman_diffusion.fields.networks import mlp


class NetworkPair(AbstractField):
    """s = softplus(MLP) ≥ 0 and g = another MLP; neither knows of the other."""

    scalar_network: eqx.nn.MLP
    gradient_network: eqx.nn.MLP

    @classmethod
    def create(cls, key: RandomKey, dim: int, width: int = 128, depth: int = 3) -> "NetworkPair":
        """Random networks with `depth` hidden layers of `width` units."""
        key_s, key_g = jax.random.split(key)
        return cls(
            scalar_network=mlp(key_s, dim, "scalar", width, depth),
            gradient_network=mlp(key_g, dim, dim, width, depth),
        )

    def scalar_and_gradient(self, x: Point) -> PointFields:
        """s(x) and g(x) from their own networks."""
        return jax.nn.softplus(self.scalar_network(x)), self.gradient_network(x)
