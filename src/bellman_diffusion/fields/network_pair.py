"""The paper's field: two independent networks (Section 3.1)."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key

from bellman_diffusion.fields.activation import silu
from bellman_diffusion.fields.base import AbstractField


class NetworkPair(AbstractField):
    """s = softplus(MLP) ≥ 0 and g = another MLP; neither knows of the other."""

    scalar_network: eqx.nn.MLP
    gradient_network: eqx.nn.MLP

    @classmethod
    def create(
        cls, key: Key[Array, ""], dim: int, width: int = 128, depth: int = 3
    ) -> "NetworkPair":
        """Random networks with `depth` hidden layers of `width` units."""
        key_s, key_g = jax.random.split(key)
        return cls(
            scalar_network=eqx.nn.MLP(dim, "scalar", width, depth, silu, key=key_s),
            gradient_network=eqx.nn.MLP(dim, dim, width, depth, silu, key=key_g),
        )

    def scalar_and_gradient(
        self, x: Float[Array, " dim"]
    ) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
        """s(x) and g(x) from their own networks."""
        return jax.nn.softplus(self.scalar_network(x)), self.gradient_network(x)
