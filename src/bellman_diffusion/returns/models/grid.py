"""Models whose outputs are weights on an even grid of returns: what C51 and ours have in common."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.models.base import (
    Bootstrap,
    HeadModel,
    Normalisation,
    Raw,
    Scalar,
    Transition,
    Weights,
)
from bellman_diffusion.returns.networks import last_layer
from bellman_diffusion.returns.support import Support

# Logits beyond the old support are this much lower than at its edge: little mass where there was none.
_OUTSIDE = 4.0


class GridModel(HeadModel):
    """Weights on nodes 0 … k − 1; the support reaches from node `margin` to node k − 1 − margin."""

    @property
    def margin(self) -> int:
        """Nodes beyond each end of the support."""
        return 0

    @abstractmethod
    def target(self, next_weights: Weights, discount: Scalar, place: Weights) -> Weights:
        """Weights of the backup, where node j of the next state moves to `place[j]` (in nodes)."""

    @property
    def can_rescale(self) -> bool:
        """By interpolating the last layer."""
        return True

    def spacing(self, support: Support) -> Scalar:
        """Between two nodes."""
        return support.width / (self.n_outputs - 1 - 2 * self.margin)

    def nodes(self, support: Support) -> Float[Array, " k"]:
        """The returns that the weights belong to."""
        steps = jnp.arange(self.n_outputs) - self.margin
        return support.low + steps * self.spacing(support)

    def means(
        self, outputs: Float[Array, "*n actions k"], normalisation: Normalisation
    ) -> Float[Array, "*n actions"]:
        """Of the weights."""
        # A product, not a sum: the sum would be fused with the softmax and compute it again.
        return outputs @ self.nodes(normalisation.support)

    def backed_up(self, next_weights: Weights, backup: BellmanBackup, support: Support) -> Weights:
        """The weights of r + γX'."""
        moved = backup.returns(self.nodes(support))
        place = (moved - support.low) / self.spacing(support) + self.margin
        return jax.lax.stop_gradient(self.target(next_weights, backup.discount, place))

    def overflow(
        self, normalisation: Normalisation, step: Transition, ahead: Bootstrap
    ) -> tuple[Scalar, Scalar]:
        """What the moved weights lose at the ends."""
        support = normalisation.support
        at = BellmanBackup(step.reward, step.discount).returns(self.nodes(support))
        # The tails that smoothing made beyond the support are not returns.
        number = jnp.arange(self.n_outputs)
        inside = (number >= self.margin) & (number < self.n_outputs - self.margin)
        mass = jnp.maximum(ahead.outputs[ahead.action], 0) * (inside | (step.discount == 0))
        below = jnp.sum(mass * jnp.maximum(support.low - at, 0)) / support.width
        above = jnp.sum(mass * jnp.maximum(at - support.high, 0)) / support.width
        return below, above

    def _with_last_layer(self, network: Any, weight: Array, bias: Array) -> Any:
        layer = last_layer(network)
        values = (weight.reshape(layer.weight.shape), bias.reshape(-1))
        return eqx.tree_at(lambda n: _arrays(last_layer(n)), network, values)

    def _last_layer(self, network: Any) -> tuple[Float[Array, "a m f"], Float[Array, "a m"]]:
        layer = last_layer(network)
        assert layer.bias is not None
        shape = (self.n_actions, self.n_raw)
        return layer.weight.reshape(*shape, -1), layer.bias.reshape(shape)


class SoftmaxModel(GridModel):
    """Weights are a softmax, fitted by cross-entropy with the target."""

    def head(self, raw: Float[Array, "actions k"]) -> Float[Array, "actions k"]:
        """The weights."""
        return jax.nn.softmax(raw)

    def discrepancy(
        self, raw: Raw, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> Scalar:
        """Cross-entropy with the target."""
        weights = self.backed_up(next_outputs, backup, support)
        return -jnp.sum(weights * jax.nn.log_softmax(raw))

    def rescaled(self, network: Any, old: Support, new: Support) -> Any:
        """Logits read off at the new nodes: linear in the last layer, so its weights are moved."""
        n = self.n_outputs
        place = (self.nodes(new) - old.low) / self.spacing(old) + self.margin
        inside = jnp.clip(place, 0, n - 1)
        mix = jnp.maximum(0, 1 - jnp.abs(inside[:, None] - jnp.arange(n)))
        outside = (place < 0) | (place > n - 1)
        weight, bias = self._last_layer(network)
        return self._with_last_layer(
            network, jnp.einsum("jk,akf->ajf", mix, weight), bias @ mix.T - _OUTSIDE * outside
        )


def _arrays(layer: eqx.nn.Linear) -> tuple[Any, Any]:
    return layer.weight, layer.bias
