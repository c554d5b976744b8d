"""Fields made of plain networks: the paper's pair (Section 3.1), and one network for both fields."""

from typing import Literal

import equinox as eqx
import jax
from jaxtyping import Array, Float

from bellman_diffusion.fields.base import AbstractField, Point, PointFields, RandomKey


def mlp(
    key: RandomKey, n_in: int, n_out: int | Literal["scalar"], width: int, depth: int
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


class ConservativeField(AbstractField):
    """s = softplus(MLP), g = ∇s by automatic differentiation.

    With g = ∇s the flux of the dynamics vanishes at q ∝ s, so the samples follow s itself. That is the
    paper's limit ε → 0, where s = p and g = ∇p; for a wide kernel the samples are those of ρ, not of p.
    """

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
