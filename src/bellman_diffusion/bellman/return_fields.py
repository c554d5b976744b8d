"""What a planner learns: from an observation to the law of its return. One interface, four kinds."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bellman_diffusion.bellman.basis import GaussianBasis
from bellman_diffusion.bellman.distribution import ReturnDistribution
from bellman_diffusion.bellman.mixture import MixtureReturn
from bellman_diffusion.bellman.observations import Encoder
from bellman_diffusion.bellman.tabulated import TabulatedReturn
from bellman_diffusion.bellman.whitening import Whitening
from bellman_diffusion.fields.networks import mlp

Rows = Float[Array, "n features"]


class ReturnField(eqx.Module):
    """The laws of the return from a batch of states."""

    @abstractmethod
    def distribution(self, rows: Rows) -> ReturnDistribution:
        """The law of each row's return."""


class BasisField(ReturnField):
    """A Gaussian basis with coefficients per row; the subclasses say where they come from."""

    centres: eqx.AbstractVar[Float[Array, " k"]]
    sigma: eqx.AbstractVar[Float[Array, ""]]

    @abstractmethod
    def coefficients(self, rows: Rows) -> Float[Array, "n k"]:
        """The coefficients of each row's law."""

    def distribution(self, rows: Rows) -> MixtureReturn:
        """Σ c_k N(μ_k, σ²)."""
        return MixtureReturn(self.coefficients(rows), self.centres, self.sigma)


class TableField(BasisField):
    """Coefficients for each state of a finite environment."""

    table: Float[Array, "states k"]
    centres: Float[Array, " k"]
    sigma: Float[Array, ""]

    def coefficients(self, rows: Rows) -> Float[Array, "n k"]:
        """The rows of the table."""
        return self.table[rows[:, 0].astype(jnp.int32)]


class NetworkBasisField(BasisField):
    """Coefficients from a network of the observation."""

    encoder: eqx.AbstractVar[Encoder]
    network: eqx.AbstractVar[eqx.nn.MLP]

    def outputs(self, rows: Rows) -> Float[Array, "n y"]:
        """What the network says of each row."""
        return jax.vmap(lambda row: self.network(self.encoder(row)))(rows)


class CramerField(NetworkBasisField):
    """Coefficients from a network whose outputs are Cramér's own coordinates (`Whitening`)."""

    encoder: Encoder
    network: eqx.nn.MLP
    to_coefficients: Float[Array, "k y"]
    from_coefficients: Float[Array, "y k"]
    centres: Float[Array, " k"]
    sigma: Float[Array, ""]

    @classmethod
    def create(
        cls, key: Key[Array, ""], encoder: Encoder, basis: GaussianBasis, width: int, depth: int
    ) -> "CramerField":
        """A random network."""
        k = len(basis.centres)
        network = mlp(key, encoder.size, k - 1, width, depth)
        whitening = Whitening.of(basis)
        return cls(
            encoder=encoder,
            network=network,
            to_coefficients=jnp.asarray(whitening.to_coefficients, jnp.float32),
            from_coefficients=jnp.asarray(whitening.from_coefficients, jnp.float32),
            centres=jnp.asarray(basis.centres[:, 0], jnp.float32),
            sigma=jnp.asarray(basis.sigma, jnp.float32),
        )

    def coefficients(self, rows: Rows) -> Float[Array, "n k"]:
        """They add up to 1 and may dip below zero a little."""
        return 1 / self.centres.shape[0] + self.outputs(rows) @ self.to_coefficients.T


class CategoricalField(NetworkBasisField):
    """C51: a softmax over atoms."""

    encoder: Encoder
    network: eqx.nn.MLP
    centres: Float[Array, " k"]
    sigma: Float[Array, ""]

    @classmethod
    def create(
        cls, key: Key[Array, ""], encoder: Encoder, basis: GaussianBasis, width: int, depth: int
    ) -> "CategoricalField":
        """A random network."""
        network = mlp(key, encoder.size, len(basis.centres), width, depth)
        return cls(
            encoder=encoder,
            network=network,
            centres=jnp.asarray(basis.centres[:, 0], jnp.float32),
            sigma=jnp.asarray(basis.sigma, jnp.float32),
        )

    def coefficients(self, rows: Rows) -> Float[Array, "n k"]:
        """Probabilities."""
        return jax.nn.softmax(self.outputs(rows))


class ReturnNetworks(eqx.Module):
    """Two independent networks of (return, state): s before its softplus, and g."""

    scalar: eqx.nn.MLP
    gradient: eqx.nn.MLP


class PaperField(ReturnField):
    """The paper's two networks s(x, z) and g(x, z) (Appendix D), over returns scaled to [−1, 1]."""

    encoder: Encoder
    network: ReturnNetworks
    low: Float[Array, ""]
    high: Float[Array, ""]
    n_grid: int = eqx.field(static=True, default=400)

    @classmethod
    def create(
        cls, key: Key[Array, ""], encoder: Encoder, basis: GaussianBasis, width: int, depth: int
    ) -> "PaperField":
        """Random networks; the basis gives only the span of returns, widened by its smoothing."""
        n_in = encoder.size + 1
        keys = jax.random.split(key)
        networks = ReturnNetworks(*(mlp(k, n_in, "scalar", width, depth) for k in keys))
        margin = 4 * basis.sigma
        return cls(
            encoder=encoder,
            network=networks,
            low=jnp.asarray(basis.low[0] - margin, jnp.float32),
            high=jnp.asarray(basis.high[0] + margin, jnp.float32),
        )

    def fields(
        self, x: Float[Array, ""], row: Float[Array, " features"]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """s and g at one return x from one state."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        inputs = jnp.concatenate([((x - middle) / half)[None], self.encoder(row)])
        s = jax.nn.softplus(self.network.scalar(inputs))
        return s / half, self.network.gradient(inputs) / half**2

    def distribution(self, rows: Rows) -> TabulatedReturn:
        """The fields on a grid over the span."""
        grid = jnp.linspace(self.low, self.high, self.n_grid)
        s, g = jax.vmap(lambda row: jax.vmap(lambda x: self.fields(x, row))(grid))(rows)
        return TabulatedReturn.create(grid, s, g)
