"""The one learner: everything that is not the return model.

A round is some environment steps, then some updates. All randomness is a function of the seed's key and
of the number of the round, and all that a round needs of the past is in `LearnerState`, so a run can
be cut anywhere between two chunks of rounds.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.replay import Number, RandomKey, Rows, empty_replay, sample, store
from bellman_diffusion.agents.risk import Risk
from bellman_diffusion.returns.models import (
    Bootstrap,
    Normalisation,
    ReturnModel,
    Transition,
    batched_outputs,
)
from bellman_diffusion.returns.observations import ObservationEncoder, ObservationScaler
from bellman_diffusion.returns.support import Support, first_support, grown, reward_bounds

# What one backup may lose over the edge of the support, in shares of its width.
_OVERFLOW = 1e-4
_OVERFLOW_BATCH = 512
# Rounds between two looks at the support's edges.
_GROW_ROUNDS = 100


class LearnerState(NamedTuple):
    """Everything of one seed."""

    network: Any
    target_network: Any
    """The copy that gives targets."""
    ema_network: Any
    """The running average of the weights, which acts in evaluations."""
    moments: Any
    normalisation: Normalisation
    replay: Rows
    actors: Any
    """Where the environments are: `Actors` of jitted ones; None where the host steps them."""


class Streams(NamedTuple):
    """The randomness of a seed, one stream for each purpose."""

    network: RandomKey
    start: RandomKey
    rounds: RandomKey
    evaluation: RandomKey

    @classmethod
    def of(cls, key: RandomKey) -> "Streams":
        """From the seed's key."""
        return cls(*jax.random.split(key, 4))


def round_key(key: RandomKey, round_: Number) -> RandomKey:
    """The randomness of a round of the seed with this key."""
    return jax.random.fold_in(Streams.of(key).rounds, round_)


class Learner(eqx.Module):
    """Pure functions of one seed's state; `jax.vmap` or a loop makes them many seeds'."""

    config: AgentConfig = eqx.field(static=True)
    model: ReturnModel
    encoder: ObservationEncoder

    @property
    def capacity(self) -> int:
        """Rows of the replay: whole rounds of each environment."""
        rows = self.config.rows_per_round
        return -(-self.config.replay // (self.config.n_envs * rows)) * rows

    def init(self, key: RandomKey) -> LearnerState:
        """The state before the first step, but for the environments."""
        network = self.model.network(Streams.of(key).network)
        dtype = jnp.uint8 if self.encoder.bytes else jnp.float32
        support = self.config.support or (0.0, 1.0)
        return LearnerState(
            network=network,
            target_network=network,
            ema_network=network,
            moments=self._transform().init(network),
            normalisation=Normalisation(
                ObservationScaler.identity(self.encoder), Support.fixed(*support)
            ),
            replay=empty_replay(self.capacity, self.config.n_envs, self.encoder.shape, dtype),
            actors=None,
        )

    # Acting

    def outputs(self, network: Any, normalisation: Normalisation, observations: Array) -> Any:
        """The network outputs of a batch of observations."""
        return batched_outputs(self.model, network, normalisation, observations)

    def best(self, outputs: Any, normalisation: Normalisation) -> Int[Array, " n"]:
        """The best actions by the configured figure of their returns."""
        risk = Risk.parse(self.config.risk)
        if risk.kind == "mean":
            return jnp.argmax(self.model.means(outputs, normalisation), axis=-1)
        return jnp.argmax(risk.value(self.model.distribution(outputs, normalisation)), axis=-1)

    def greedy(
        self, network: Any, normalisation: Normalisation, observations: Array
    ) -> Int[Array, " n"]:
        """The best actions from a batch of observations."""
        return self.best(self.outputs(network, normalisation, observations), normalisation)

    def random_actions(
        self, key: RandomKey, shape: tuple[int, ...], epsilon: Array
    ) -> tuple[Bool[Array, "..."], Int[Array, "..."]]:
        """Where to explore, and with which action."""
        chance, choice = jax.random.split(key)
        other = jax.random.randint(choice, shape, 0, self.model.n_actions)
        return jax.random.uniform(chance, shape) < epsilon, other

    def epsilon(self, step: Number) -> Float[Array, ""]:
        """The share of random actions: 1 before learning starts, then a linear decay."""
        c = self.config
        done = jnp.clip((step - c.learning_starts) / max(c.epsilon_steps, 1), 0, 1)
        falling = c.epsilon_start + (c.epsilon_end - c.epsilon_start) * done
        return jnp.where(step < c.learning_starts, 1.0, falling)

    # Learning

    def learn(
        self, key: RandomKey, state: LearnerState, rows: Rows, round_: Number
    ) -> tuple[LearnerState, dict[str, Array]]:
        """Store a round's steps and learn from the replay."""
        c = self.config
        before = round_ * c.rows_per_round
        state = state._replace(replay=store(state.replay, rows, before % self.capacity))
        written = before + c.rows_per_round
        first = self.first_round
        update_key, grow_key = jax.random.split(key)
        state = self._grow(grow_key, state, round_, written)

        def update(state: LearnerState) -> tuple[LearnerState, Array]:
            normalisation = jax.lax.cond(
                round_ == first,
                lambda: self._find_normalisation(state),
                lambda: state.normalisation,
            )
            state = state._replace(normalisation=normalisation)
            keys = jax.random.split(update_key, c.updates_per_round)
            numbers = (round_ - first) * c.updates_per_round + jnp.arange(c.updates_per_round)

            def one(state, inputs):
                key, number = inputs
                return self._update(key, number, state, written, round_)

            state, losses = jax.lax.scan(one, state, (keys, numbers))
            return state, jnp.mean(losses)

        def wait(state: LearnerState) -> tuple[LearnerState, Array]:
            return state, jnp.zeros(())

        state, loss = jax.lax.cond(round_ >= first, update, wait, state)
        return state, {"loss": loss}

    @property
    def first_round(self) -> int:
        """The round after whose steps learning starts."""
        c = self.config
        enough = max(c.learning_starts, c.n_envs * (c.n_step + 1))
        return max(-(-enough // c.steps_per_round) - 1, 0)

    def _find_normalisation(self, state: LearnerState) -> Normalisation:
        """The scale of observations and the support, from the random steps."""
        c = self.config
        n_rows = (self.first_round + 1) * c.rows_per_round
        seen = jax.tree.map(lambda a: a[: min(n_rows, self.capacity)], state.replay)
        scaler, support = state.normalisation.scaler, state.normalisation.support
        if c.normalise:
            shape = self.encoder.shape
            scaler = scaler.fitted(seen.observation.astype(jnp.float32).reshape(-1, *shape))
        if c.support is None:
            support = first_support(seen.reward, seen.ended, c.gamma)
            if not self.model.can_rescale:
                support = support.widest()
        return Normalisation(scaler, support)

    def _update(
        self, key: RandomKey, number: Number, state: LearnerState, written: Number, round_: Number
    ) -> tuple[LearnerState, Array]:
        c = self.config
        sample_key, loss_key = jax.random.split(key)
        batch = sample(state.replay, sample_key, c.batch_size, c.n_step, c.gamma, written)
        normalisation = state.normalisation
        next_outputs = self.outputs(state.target_network, normalisation, batch.next_observation)
        if c.double:
            next_action = self.greedy(state.network, normalisation, batch.next_observation)
        else:
            next_action = self.best(next_outputs, normalisation)
        loss, gradient = jax.value_and_grad(self._batch_loss)(
            state.network, state, loss_key, batch, next_outputs, next_action
        )
        updates, moments = self._transform().update(gradient, state.moments)
        done = round_ * c.steps_per_round / c.steps
        rate = c.learning_rate * (1 + (c.learning_rate_end - 1) * done)
        network = jax.tree.map(lambda w, u: w - rate * u, state.network, updates)
        state = state._replace(
            network=network,
            target_network=self._updated_target(network, state.target_network, number),
            ema_network=self._updated_ema(network, state.ema_network, number),
            moments=moments,
        )
        return state, loss

    def _updated_target(self, network: Any, target: Any, number: Number) -> Any:
        c = self.config
        if not c.target_every:
            return optax.incremental_update(network, target, c.target_rate)
        now = (number + 1) % c.target_every == 0
        return jax.tree.map(lambda new, old: jnp.where(now, new, old), network, target)

    def _updated_ema(self, network: Any, ema: Any, number: Number) -> Any:
        if not self.config.ema_decay:
            return network
        # Short at first, so that the random start is forgotten.
        decay = jnp.minimum(self.config.ema_decay, (1 + number) / (10 + number))
        return optax.incremental_update(network, ema, 1 - decay)

    def _batch_loss(
        self, network, state: LearnerState, key, batch: Transition, next_outputs, next_action
    ) -> Array:
        def one(number, step, next_outputs, action):
            own = jax.random.fold_in(key, number)
            ahead = Bootstrap(state.target_network, next_outputs, action)
            return self.model.loss(network, state.normalisation, step, ahead, own)

        numbers = jnp.arange(self.config.batch_size)
        return jnp.mean(jax.vmap(one)(numbers, batch, next_outputs, next_action))

    def _transform(self) -> optax.GradientTransformation:
        return optax.chain(
            optax.clip_by_global_norm(self.config.max_grad_norm), optax.scale_by_adam(eps=1e-5)
        )

    def _grow(
        self, key: RandomKey, state: LearnerState, round_: Number, written: Number
    ) -> LearnerState:
        """Now and then: widen the support where returns overflow it, and rescale the networks."""
        c = self.config
        if c.support is not None:
            return state
        unchanged = (state.network, state.target_network, state.ema_network, state.normalisation)

        def widened() -> tuple[Any, Any, Any, Normalisation]:
            batch = sample(state.replay, key, _OVERFLOW_BATCH, c.n_step, c.gamma, written)
            *networks, normalisation = unchanged
            ahead = self.outputs(state.target_network, normalisation, batch.next_observation)

            def one(step: Transition, outputs: Any, action: Array) -> tuple[Array, Array]:
                bootstrap = Bootstrap(state.target_network, outputs, action)
                return self.model.overflow(normalisation, step, bootstrap)

            best = self.best(ahead, normalisation)
            below, above = map(jnp.mean, jax.vmap(one)(batch, ahead, best))
            old = normalisation.support
            bounds = reward_bounds(state.replay.reward, c.gamma)
            new = grown(old, below, above, bounds, _OVERFLOW)
            same = (new.low == old.low) & (new.high == old.high)

            def rescale(network: Any) -> Any:
                rescaled = self.model.rescaled(network, old, new)
                return jax.tree.map(lambda a, b: jnp.where(same, a, b), network, rescaled)

            network, target, ema = map(rescale, networks)
            return network, target, ema, Normalisation(normalisation.scaler, new)

        # The number of the round is the same for all seeds: one of the two is run, not both.
        due = (round_ > self.first_round) & (round_ % _GROW_ROUNDS == 0)
        network, target, ema, normalisation = jax.lax.cond(due, widened, lambda: unchanged)
        return state._replace(
            network=network, target_network=target, ema_network=ema, normalisation=normalisation
        )
