"""The paper's own model (Appendix D): networks s(x, z) and g(x, z), Algorithm 3's regression.

Departures from the paper's text, as everywhere here: the right constants 1/γ and 1/γ², ends drawn from
N(r, ξ). Actions are chosen by the expected return of s; g is learned and shown, and decides nothing.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from bellman_diffusion.agents.algorithms.base import Algorithm, Frame
from bellman_diffusion.agents.networks import DenseNetwork, Reader
from bellman_diffusion.agents.replay import Transition
from bellman_diffusion.agents.support import Support
from bellman_diffusion.bellman.losses import Draws, algorithm_3
from bellman_diffusion.bellman.tabulated import TabulatedReturn
from bellman_diffusion.errors import InvalidInputError


class TwoFields(eqx.Module):
    """Two networks of (return, observation), each with an output for each action."""

    scalar: DenseNetwork
    gradient: DenseNetwork


class PaperFields(Algorithm):
    """Readings are the two fields on an even grid of `n_grid` returns."""

    reader: Reader
    n_actions: int = eqx.field(static=True)
    n_grid: int = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)
    sigma: float = eqx.field(static=True)
    """√ξ, the smoothing of ends, in spacings of the grid."""
    epsilon: float = eqx.field(static=True, default=0.1)
    """The kernel's variance in units of half the span squared."""

    def __check_init__(self) -> None:
        """Images have no network here."""
        if self.reader.is_image:
            raise InvalidInputError(
                "bellman-paper has no network for images: use bellman, c51, qr-dqn or dqn"
            )

    def network(self, key: Key[Array, ""]) -> TwoFields:
        """Random weights."""
        n_in = self.reader.n_features + 1
        create = DenseNetwork.create
        return TwoFields(
            *(create(k, n_in, self.hidden, self.n_actions) for k in jax.random.split(key))
        )

    def span(self, support: Support) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The support with room for the smoothing of ends."""
        room = 4 * self.width(support)
        return support.low - room, support.high + room

    def width(self, support: Support) -> Float[Array, ""]:
        """√ξ in units of the return."""
        return self.sigma * support.width / (self.n_grid - 1)

    def fields(
        self, network: TwoFields, frame: Frame, seen: Float[Array, " features"], x: Array
    ) -> tuple[Float[Array, " actions"], Float[Array, " actions"]]:
        """s and g of every action at one return."""
        low, high = self.span(frame.support)
        middle, half = (low + high) / 2, (high - low) / 2
        inputs = jnp.concatenate([((x - middle) / half)[None], seen])
        s = jax.nn.softplus(network.scalar(inputs)) / half
        return s, network.gradient(inputs) / half**2

    def read(self, network: Any, frame: Frame, observation: Array) -> Float[Array, "2 actions n"]:
        """Both fields on the grid."""
        seen = frame.scaling(observation)
        s, g = jax.vmap(lambda x: self.fields(network, frame, seen, x))(self._grid(frame.support))
        return jnp.stack([s.T, g.T])

    def means(
        self, reading: Float[Array, "*n 2 actions grid"], frame: Frame
    ) -> Float[Array, "*n actions"]:
        """∫ x s / ∫ s."""
        grid = self._grid(frame.support)
        s = reading[..., 0, :, :]
        mass = jnp.maximum(jnp.trapezoid(s, grid, axis=-1), 1e-12)
        return jnp.trapezoid(s * grid, grid, axis=-1) / mass

    def laws(self, reading: Float[Array, "*n 2 actions grid"], frame: Frame) -> TabulatedReturn:
        """The fields on the grid, normalised."""
        grid = self._grid(frame.support)
        return TabulatedReturn.create(grid, reading[..., 0, :, :], reading[..., 1, :, :])

    def loss(
        self,
        network: Any,
        slow: Any,
        frame: Frame,
        transition: Transition,
        following: Any,
        next_action: Int[Array, ""],
        key: Key[Array, ""],
    ) -> Float[Array, ""]:
        """Algorithm 3 at one uniform return, or at two draws of an end."""
        del following
        low, high = span = self.span(frame.support)
        noise = self.width(frame.support)
        keys = jax.random.split(key, 3)
        draws = Draws(
            jax.random.uniform(keys[0], minval=low, maxval=high),
            transition.reward + noise * jax.random.normal(keys[1]),
            transition.reward + noise * jax.random.normal(keys[2]),
        )
        seen, then = frame.scaling(transition.observation), frame.scaling(transition.following)

        def now(x: Array) -> tuple[Array, Array]:
            s, g = self.fields(network, frame, seen, x)
            return s[transition.action], g[transition.action]

        def later(x: Array) -> tuple[Array, Array]:
            s, g = self.fields(slow, frame, then, x)
            return s[next_action], g[next_action]

        epsilon = self.epsilon * ((high - low) / 2) ** 2
        return algorithm_3(now, later, draws, transition.reward, transition.discount, span, epsilon)

    def _grid(self, support: Support) -> Float[Array, " n"]:
        return jnp.linspace(*self.span(support), self.n_grid)
