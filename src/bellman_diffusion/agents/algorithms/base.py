"""What an algorithm is: a return model, and a loss for one transition. Nothing else.

Stepping, replay, exploration, the slow copy, the choice of actions and judging are the learner's.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from bellman_diffusion.agents.networks import Reader, Scaling
from bellman_diffusion.agents.replay import Transition
from bellman_diffusion.agents.support import Support
from bellman_diffusion.bellman.distribution import ReturnDistribution


class Frame(eqx.Module):
    """What a model stands in, found from the first steps and not learned by gradients."""

    scaling: Scaling
    support: Support


class Algorithm(eqx.Module):
    """The law of the return of each action, from an observation.

    A network holds the weights alone; `frame` is handed in beside it. What a network says of one
    observation is its reading: an array (or a tree of them) that laws and means are made from.
    """

    n_actions: eqx.AbstractVar[int]

    @property
    def can_move(self) -> bool:
        """Whether the support may grow while it learns (`spill` and `moved`)."""
        return False

    @abstractmethod
    def network(self, key: Key[Array, ""]) -> Any:
        """Random weights."""

    @abstractmethod
    def read(self, network: Any, frame: Frame, observation: Array) -> Any:
        """The reading of one observation."""

    @abstractmethod
    def means(self, reading: Any, frame: Frame) -> Float[Array, "*n actions"]:
        """The expected return of each action, from one reading or a batch of them."""

    @abstractmethod
    def laws(self, reading: Any, frame: Frame) -> ReturnDistribution:
        """The laws of the returns; their shape is (batch, actions)."""

    @abstractmethod
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
        """The loss on one transition.

        `following` is the slow copy's reading of what comes next, where `next_action` is taken.
        """

    def spill(
        self, frame: Frame, transition: Transition, following: Any, next_action: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """How much of one target lies below and above the support, in shares of its width."""
        del frame, transition, following, next_action
        return jnp.zeros(()), jnp.zeros(())

    def moved(self, network: Any, old: Support, new: Support) -> Any:
        """The network that says the same over another support."""
        del old, new
        return network


class HeadAlgorithm(Algorithm):
    """A network from the observation to a few numbers for each action; subclasses say their meaning."""

    reader: eqx.AbstractVar[Reader]
    n_outputs: eqx.AbstractVar[int]
    hidden: eqx.AbstractVar[tuple[int, ...]]

    @abstractmethod
    def reading(self, outputs: Float[Array, "actions k"]) -> Float[Array, "actions k"]:
        """What laws are made from: a function of the outputs."""

    @abstractmethod
    def discrepancy(
        self,
        outputs: Float[Array, " k"],
        following: Float[Array, " k"],
        reward: Float[Array, ""],
        discount: Float[Array, ""],
        support: Support,
    ) -> Float[Array, ""]:
        """How far the outputs are from the law of reward + discount · (what follows, as a reading)."""

    def network(self, key: Key[Array, ""]) -> Any:
        """One network with outputs for all actions."""
        return self.reader.network(key, self.hidden, self.n_actions * self.n_outputs)

    def outputs(self, network: Any, frame: Frame, observation: Array) -> Float[Array, "actions k"]:
        """The numbers of each action."""
        return network(frame.scaling(observation)).reshape(self.n_actions, self.n_outputs)

    def read(self, network: Any, frame: Frame, observation: Array) -> Float[Array, "actions k"]:
        """From the outputs."""
        return self.reading(self.outputs(network, frame, observation))

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
        """The discrepancy between the taken action's outputs and what the slow copy says follows."""
        del slow, key
        outputs = self.outputs(network, frame, transition.observation)[transition.action]
        return self.discrepancy(
            outputs,
            following[next_action],
            transition.reward,
            transition.discount,
            frame.support,
        )
