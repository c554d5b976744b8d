"""The paper's own model (Appendix D): networks s(x, z) and g(x, z), and Algorithm 3's regression.

Departures from the paper's text, as everywhere here: the right constants 1/γ and 1/γ², ends drawn from
N(r, ξ). Actions are chosen by the expected return of s; g is learned and shown, and decides nothing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.models.base import (
    Bootstrap,
    Normalisation,
    PRNGKey,
    ReturnModel,
    Scalar,
    Transition,
)
from bellman_diffusion.returns.networks import Activation, DenseNetwork
from bellman_diffusion.returns.observations import ObservationEncoder
from bellman_diffusion.returns.support import Support
from bellman_diffusion.returns.tabulated import TabulatedReturn


class TwoFields(eqx.Module):
    """Two networks of (return, observation), each with an output for each action."""

    scalar: DenseNetwork
    gradient: DenseNetwork


class PaperNetworks(ReturnModel):
    """Outputs are the two fields on an even grid of returns."""

    encoder: ObservationEncoder
    n_actions: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)
    sigma: float = eqx.field(static=True)
    """√ξ, the smoothing of ends, in shares of the support's width · 1/(n_outputs − 1)."""
    activation: Activation = eqx.field(static=True, default=jax.nn.relu)
    n_grid: int | None = eqx.field(static=True, default=None)
    """Returns at which both fields are evaluated; by default `n_outputs`."""
    epsilon: float = eqx.field(static=True, default=0.1)
    """The kernel's variance in units of half the span squared."""

    def __check_init__(self) -> None:
        """Images have no network here."""
        if self.encoder.is_image:
            raise InvalidInputError(
                "the paper's networks take no images: use another model (bellman, c51, qr-dqn, dqn)"
            )

    def network(self, key: PRNGKey) -> TwoFields:
        """Random weights."""
        sizes = (self.encoder.n_features + 1, self.hidden, self.n_actions, self.activation)
        return TwoFields(*(DenseNetwork.create(k, *sizes) for k in jax.random.split(key)))

    def span(self, support: Support) -> tuple[Scalar, Scalar]:
        """The support with room for the smoothing of ends."""
        room = 4 * self.width(support)
        return support.low - room, support.high + room

    def width(self, support: Support) -> Scalar:
        """√ξ in units of the return."""
        return self.sigma * support.width / (self.n_outputs - 1)

    def fields(
        self,
        network: TwoFields,
        normalisation: Normalisation,
        features: Float[Array, " features"],
        x: Array,
    ) -> tuple[Float[Array, " actions"], Float[Array, " actions"]]:
        """s and g of every action at one return."""
        low, high = self.span(normalisation.support)
        middle, half = (low + high) / 2, (high - low) / 2
        inputs = jnp.concatenate([((x - middle) / half)[None], features])
        s = jax.nn.softplus(network.scalar(inputs)) / half
        return s, network.gradient(inputs) / half**2

    def outputs(
        self, network: Any, normalisation: Normalisation, observation: Array
    ) -> Float[Array, "2 actions n"]:
        """Both fields on the grid."""
        features = normalisation.scaler(observation)
        grid = self._grid(normalisation.support)
        s, g = jax.vmap(lambda x: self.fields(network, normalisation, features, x))(grid)
        return jnp.stack([s.T, g.T])

    def means(
        self, outputs: Float[Array, "*n 2 actions grid"], normalisation: Normalisation
    ) -> Float[Array, "*n actions"]:
        """∫ x s / ∫ s."""
        grid = self._grid(normalisation.support)
        s = outputs[..., 0, :, :]
        mass = jnp.maximum(jnp.trapezoid(s, grid, axis=-1), 1e-12)
        return jnp.trapezoid(s * grid, grid, axis=-1) / mass

    def distribution(
        self, outputs: Float[Array, "*n 2 actions grid"], normalisation: Normalisation
    ) -> TabulatedReturn:
        """The fields on the grid, normalised."""
        grid = self._grid(normalisation.support)
        return TabulatedReturn.create(grid, outputs[..., 0, :, :], outputs[..., 1, :, :])

    def loss(
        self,
        network: Any,
        normalisation: Normalisation,
        step: Transition,
        ahead: Bootstrap,
        key: PRNGKey,
    ) -> Scalar:
        """Algorithm 3 at one uniform return, or at two draws of an end."""
        support, scaler = normalisation.support, normalisation.scaler
        low, high = span = self.span(support)
        noise = self.width(support)
        keys = jax.random.split(key, 3)
        draws = Draws(
            jax.random.uniform(keys[0], minval=low, maxval=high),
            step.reward + noise * jax.random.normal(keys[1]),
            step.reward + noise * jax.random.normal(keys[2]),
        )

        def fields_of(network: TwoFields, observation: Array, action: Array) -> FieldsAt:
            def at(x: Array) -> tuple[Array, Array]:
                s, g = self.fields(network, normalisation, scaler(observation), x)
                return s[action], g[action]

            return at

        return algorithm_3(
            fields_of(network, step.observation, step.action),
            fields_of(ahead.network, step.next_observation, ahead.action),
            draws,
            step.reward,
            step.discount,
            span,
            self.epsilon * ((high - low) / 2) ** 2,
        )

    def _grid(self, support: Support) -> Float[Array, " n"]:
        return jnp.linspace(*self.span(support), self.n_grid or self.n_outputs)


class Draws(NamedTuple):
    """The returns that Algorithm 3 looks at: one uniform, two from the distribution of an end."""

    uniform: Scalar
    end: Scalar
    other_end: Scalar


FieldsAt = Callable[[Scalar], tuple[Scalar, Scalar]]


def algorithm_3(
    fields: FieldsAt,
    next_fields: FieldsAt,
    draws: Draws,
    reward: Scalar,
    discount: Scalar,
    span: tuple[Scalar, Scalar],
    epsilon: Scalar | float,
) -> Scalar:
    """Algorithm 3 for one transition, with the right constants: 1/γ for s, 1/γ² for g.

    Where the episode goes on (discount > 0), both fields regress to the plain backup at a uniform
    return; at its end they are matched to samples. Lengths are in units of half the span: the two
    parts weigh alike.
    """
    low, high = span
    half = (high - low) / 2
    backup = BellmanBackup(reward, jnp.where(discount > 0, discount, 1.0))
    x = draws.uniform
    place = backup.preimage(x)
    inside = (place >= low) & (place <= high)
    s_target = jnp.where(inside, backup.density(lambda y: next_fields(y)[0])(x), 0.0)
    g_target = jnp.where(inside, backup.gradient(lambda y: next_fields(y)[1])(x), 0.0)
    s, g = fields(x)
    going_on = half**2 * (s - s_target) ** 2 + half**4 * (g - g_target) ** 2

    kernel = jax.scipy.stats.norm.pdf(draws.end - draws.other_end, 0.0, jnp.sqrt(epsilon))
    (s1, g1), (_, slope) = jax.jvp(fields, (draws.end,), (jnp.ones_like(draws.end),))
    ended = half**4 * (g1**2 + kernel * slope) + half**2 * (s1**2 - 2 * kernel * s1)
    return jnp.where(discount > 0, going_on, ended)
