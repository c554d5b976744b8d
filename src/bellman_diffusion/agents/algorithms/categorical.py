"""Laws as softmax weights on evenly spaced returns: what C51 and the default model have in common."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bellman_diffusion.agents.algorithms.base import Frame, HeadAlgorithm
from bellman_diffusion.agents.replay import Transition
from bellman_diffusion.agents.support import Support


class CategoricalAlgorithm(HeadAlgorithm):
    """Weights on nodes 0 … k − 1; the support reaches from node `margin` to node k − 1 − margin."""

    @property
    @abstractmethod
    def margin(self) -> int:
        """Nodes beyond each end of the support."""

    @abstractmethod
    def target(
        self,
        following: Float[Array, " k"],
        discount: Float[Array, ""],
        place: Float[Array, " k"],
    ) -> Float[Array, " k"]:
        """Weights of reward + discount·X', where node j of X' moves to `place[j]` (in nodes)."""

    @property
    def can_move(self) -> bool:
        """By interpolating logits."""
        return True

    def spacing(self, support: Support) -> Float[Array, ""]:
        """Between two nodes."""
        return support.width / (self.n_outputs - 1 - 2 * self.margin)

    def nodes(self, support: Support) -> Float[Array, " k"]:
        """The returns that the weights stand on."""
        steps = jnp.arange(self.n_outputs) - self.margin
        return support.low + steps * self.spacing(support)

    def reading(self, outputs: Float[Array, "actions k"]) -> Float[Array, "actions k"]:
        """The weights."""
        return jax.nn.softmax(outputs)

    def means(
        self, reading: Float[Array, "*n actions k"], frame: Frame
    ) -> Float[Array, "*n actions"]:
        """Of the weights."""
        # A product, not a sum: the sum would be fused with the softmax and compute it again.
        return reading @ self.nodes(frame.support)

    def discrepancy(
        self,
        outputs: Float[Array, " k"],
        following: Float[Array, " k"],
        reward: Float[Array, ""],
        discount: Float[Array, ""],
        support: Support,
    ) -> Float[Array, ""]:
        """Cross-entropy with the target."""
        spacing = self.spacing(support)
        place = (reward + discount * self.nodes(support) - support.low) / spacing + self.margin
        weights = self.target(following, discount, place)
        return -jnp.sum(jax.lax.stop_gradient(weights) * jax.nn.log_softmax(outputs))

    def spill(
        self, frame: Frame, transition: Transition, following: Any, next_action: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """What the moved weights miss at the ends."""
        weights = following[next_action]
        support = frame.support
        at = transition.reward + transition.discount * self.nodes(support)
        # The tails that smoothing made beyond the support are not returns.
        number = jnp.arange(self.n_outputs)
        inside = (number >= self.margin) & (number < self.n_outputs - self.margin)
        mass = weights * (inside | (transition.discount == 0))
        below = jnp.sum(mass * jnp.maximum(support.low - at, 0)) / support.width
        above = jnp.sum(mass * jnp.maximum(at - support.high, 0)) / support.width
        return below, above

    def moved(self, network: Any, old: Support, new: Support) -> Any:
        """Logits read off at the new nodes: linear in the last layer, so its weights are moved."""
        place = (self.nodes(new) - old.low) / self.spacing(old) + self.margin
        mix = _interpolation(place, self.n_outputs)
        outside = (place < 0) | (place > self.n_outputs - 1)
        layer = network_head(network)
        shape = (self.n_actions, self.n_outputs, -1)
        weight = jnp.einsum("jk,akf->ajf", mix, layer.weight.reshape(shape))
        bias = layer.bias.reshape(shape[:2]) @ mix.T - _OUTSIDE * outside
        values = (weight.reshape(layer.weight.shape), bias.reshape(-1))
        return eqx.tree_at(lambda n: _head_arrays(network_head(n)), network, values)


# Logits this much lower than at the old edge: little mass where there was none.
_OUTSIDE = 4.0


def network_head(network: Any) -> Any:
    """The last layer."""
    return getattr(network, "dense", network).layers[-1]


def _head_arrays(layer: Any) -> tuple[Any, Any]:
    return layer.weight, layer.bias


def _interpolation(place: Float[Array, " k"], n: int) -> Float[Array, "k n"]:
    place = jnp.clip(place, 0, n - 1)
    return jnp.maximum(0, 1 - jnp.abs(place[:, None] - jnp.arange(n)))
