"""What a return model is: the return distribution of each action, and a loss for one transition.

Planner and agents share these models. A planner evaluates one policy, so its models have one action.
Stepping, replay, exploration, the target network and the choice of actions belong to their users.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.networks import Activation, Network, make_network
from bellman_diffusion.returns.observations import ObservationEncoder, ObservationScaler
from bellman_diffusion.returns.support import Support

Scalar = Float[Array, ""]
Index = Int[Array, ""]
PRNGKey = Key[Array, ""]
# The weights or quantiles of one action's return, and the network's raw numbers for it.
Weights = Float[Array, " k"]
Raw = Float[Array, " m"]


class Normalisation(eqx.Module):
    """The scale of observations and the support of returns: found from data, not by gradients."""

    scaler: ObservationScaler
    support: Support


class Transition(NamedTuple):
    """From one state to the one n steps on (or to the episode's end)."""

    observation: Array
    action: Index
    reward: Float[Array, "*dim"]
    """The discounted sum of the rewards on the way."""
    next_observation: Array
    discount: Float[Array, "*dim"]
    """γ to the number of steps; 0 after a terminated episode, but not after a truncated one."""


class Bootstrap(NamedTuple):
    """What the target network says of the next observation, and the action taken there."""

    network: Any
    outputs: Any
    action: Index


class ReturnModel(eqx.Module):
    """The return distribution of each action, from an observation.

    A network holds the trained weights alone; the `normalisation` is passed in with it. The network
    outputs for one observation are an array that distributions and means are computed from.
    """

    n_actions: eqx.AbstractVar[int]

    @property
    def can_rescale(self) -> bool:
        """Whether the support may grow during training (`overflow` and `rescaled`)."""
        return False

    @abstractmethod
    def network(self, key: PRNGKey) -> Any:
        """Random weights."""

    @abstractmethod
    def outputs(self, network: Any, normalisation: Normalisation, observation: Array) -> Any:
        """The network outputs for one observation."""

    @abstractmethod
    def means(self, outputs: Any, normalisation: Normalisation) -> Float[Array, "*n actions"]:
        """The expected return of each action, from the outputs of one observation or of a batch."""

    @abstractmethod
    def distribution(self, outputs: Any, normalisation: Normalisation) -> Any:
        """A `ReturnDistribution` of batch shape (…, actions); of vector returns a `JointReturn`."""

    @abstractmethod
    def loss(
        self,
        network: Any,
        normalisation: Normalisation,
        step: Transition,
        ahead: Bootstrap,
        key: PRNGKey,
    ) -> Scalar:
        """The loss on one transition."""

    def overflow(
        self, normalisation: Normalisation, step: Transition, ahead: Bootstrap
    ) -> tuple[Scalar, Scalar]:
        """How far one target reaches below and above the support, in shares of its width."""
        del normalisation, step, ahead
        return jnp.zeros(()), jnp.zeros(())

    def rescaled(self, network: Any, old: Support, new: Support) -> Any:
        """The network that predicts the same over another support."""
        del old, new
        return network


class HeadModel(ReturnModel):
    """A network from the observation to a few numbers for each action; subclasses say their meaning."""

    encoder: ObservationEncoder
    n_actions: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)
    activation: Activation = eqx.field(static=True, default=jax.nn.relu)

    @abstractmethod
    def head(self, raw: Float[Array, "actions m"]) -> Float[Array, "actions k"]:
        """The outputs that distributions are made from: a function of the network's raw numbers."""

    @abstractmethod
    def discrepancy(
        self, raw: Raw, next_outputs: Weights, backup: BellmanBackup, support: Support
    ) -> Scalar:
        """How far the raw numbers of an action are from the backup of `next_outputs`."""

    @property
    def n_raw(self) -> int:
        """Numbers of the network for each action."""
        return self.n_outputs

    def network(self, key: PRNGKey) -> Network:
        """One network with numbers for all actions."""
        n_out = self.n_actions * self.n_raw
        return make_network(self.encoder, key, self.hidden, n_out, self.activation)

    def raw(
        self, network: Network, normalisation: Normalisation, observation: Array
    ) -> Float[Array, "actions m"]:
        """The network's numbers for each action."""
        return network(normalisation.scaler(observation)).reshape(self.n_actions, self.n_raw)

    def outputs(
        self, network: Any, normalisation: Normalisation, observation: Array
    ) -> Float[Array, "actions k"]:
        """The head of the raw numbers."""
        return self.head(self.raw(network, normalisation, observation))

    def loss(
        self,
        network: Any,
        normalisation: Normalisation,
        step: Transition,
        ahead: Bootstrap,
        key: PRNGKey,
    ) -> Scalar:
        """The discrepancy between the taken action's numbers and the backup of the target network's."""
        del key
        raw = self.raw(network, normalisation, step.observation)[step.action]
        backup = BellmanBackup(step.reward, step.discount)
        return self.discrepancy(raw, ahead.outputs[ahead.action], backup, normalisation.support)


class LearnedReturns(eqx.Module):
    """A trained model: return distributions of a batch of stored observations."""

    model: ReturnModel
    network: Any
    normalisation: Normalisation

    def outputs(self, observations: Array) -> Any:
        """The network outputs of each observation."""
        return batched_outputs(self.model, self.network, self.normalisation, observations)

    def distribution(self, observations: Array) -> Any:
        """Of each observation and action."""
        return self.model.distribution(self.outputs(observations), self.normalisation)


def batched_outputs(
    model: ReturnModel, network: Any, normalisation: Normalisation, observations: Array
) -> Any:
    """The network outputs of a batch of observations."""
    return jax.vmap(lambda o: model.outputs(network, normalisation, o))(observations)
