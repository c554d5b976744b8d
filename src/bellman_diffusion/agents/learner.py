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
from jaxtyping import Array, Bool, Float, Int, Key

from bellman_diffusion.agents.algorithms.base import Algorithm, Frame
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.environments.base import EnvState, JaxEnvironment
from bellman_diffusion.agents.networks import Reader, Scaling
from bellman_diffusion.agents.replay import Rows, Transition, empty_replay, sample, store
from bellman_diffusion.agents.risk import Risk
from bellman_diffusion.agents.support import Support, first_support, grown

# What one backup may lose over the edge of the support, in shares of its width.
_SPILL = 1e-4
_SPILL_BATCH = 512
# Rounds between two looks at the support's edges.
_GROW_ROUNDS = 100


class LearnerState(NamedTuple):
    """Everything of one seed."""

    network: Any
    slow: Any
    """The copy that gives targets."""
    average: Any
    """The weights that act when judged."""
    moments: Any
    frame: Frame
    replay: Rows
    actors: Any
    """Where the environments are: `Actors` of jitted ones; None where the host steps them."""


class Actors(NamedTuple):
    """The seed's environments, side by side."""

    state: EnvState
    observation: Array
    total: Float[Array, " env"]
    """The return of the running episode, without discount."""


class Streams(NamedTuple):
    """The randomness of a seed, apart for each purpose."""

    network: Key[Array, ""]
    start: Key[Array, ""]
    rounds: Key[Array, ""]
    judging: Key[Array, ""]

    @classmethod
    def of(cls, key: Key[Array, ""]) -> "Streams":
        """From the seed's key."""
        return cls(*jax.random.split(key, 4))


def round_key(key: Key[Array, ""], round_: Int[Array, ""]) -> Key[Array, ""]:
    """The randomness of a round of the seed with this key."""
    return jax.random.fold_in(Streams.of(key).rounds, round_)


class Luck(NamedTuple):
    """The chance of some steps: time first, then the environments."""

    deviates: Bool[Array, "*n"]
    action: Int[Array, "*n"]
    step_keys: Key[Array, "*n"]
    fresh: Any
    """What a reset would give."""


class Learner(eqx.Module):
    """Pure functions of one seed's state; `jax.vmap` or a loop makes them many seeds'."""

    config: AgentConfig = eqx.field(static=True)
    algorithm: Algorithm
    reader: Reader

    @property
    def capacity(self) -> int:
        """Rows of the replay: whole rounds of each environment."""
        rows = self.config.rows_per_round
        return -(-self.config.replay // (self.config.n_envs * rows)) * rows

    def init(self, key: Key[Array, ""]) -> LearnerState:
        """The state before the first step, but for the environments."""
        network = self.algorithm.network(Streams.of(key).network)
        kept = jnp.uint8 if self.reader.bytes else jnp.float32
        support = self.config.support or (0.0, 1.0)
        return LearnerState(
            network=network,
            slow=network,
            average=network,
            moments=self._transform().init(network),
            frame=Frame(Scaling.none(self.reader), Support.fixed(*support)),
            replay=empty_replay(self.capacity, self.config.n_envs, self.reader.shape, kept),
            actors=None,
        )

    # Acting

    def read(self, network: Any, frame: Frame, observations: Array) -> Any:
        """The readings of a batch of observations."""
        return jax.vmap(lambda o: self.algorithm.read(network, frame, o))(observations)

    def best(self, readings: Any, frame: Frame) -> Int[Array, " n"]:
        """The best actions by the configured figure of their returns."""
        risk = Risk.parse(self.config.risk)
        if risk.kind == "mean":
            return jnp.argmax(self.algorithm.means(readings, frame), axis=-1)
        return jnp.argmax(risk.value(self.algorithm.laws(readings, frame)), axis=-1)

    def greedy(self, network: Any, frame: Frame, observations: Array) -> Int[Array, " n"]:
        """The best actions from a batch of observations."""
        return self.best(self.read(network, frame, observations), frame)

    def random_actions(
        self, key: Key[Array, ""], shape: tuple[int, ...], epsilon: Array
    ) -> tuple[Bool[Array, "..."], Int[Array, "..."]]:
        """Where to deviate from the greedy action, and to what."""
        chance, choice = jax.random.split(key)
        other = jax.random.randint(choice, shape, 0, self.algorithm.n_actions)
        return jax.random.uniform(chance, shape) < epsilon, other

    def epsilon(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """The share of random actions: 1 before learning starts, then a line down."""
        c = self.config
        done = jnp.clip((step - c.learning_starts) / max(c.epsilon_steps, 1), 0, 1)
        falling = c.epsilon_start + (c.epsilon_end - c.epsilon_start) * done
        return jnp.where(step < c.learning_starts, 1.0, falling)

    # Learning

    def absorb(
        self, key: Key[Array, ""], state: LearnerState, rows: Rows, round_: Int[Array, ""]
    ) -> tuple[LearnerState, dict[str, Array]]:
        """Keep a round's steps and learn from the replay."""
        c = self.config
        before = round_ * c.rows_per_round
        state = state._replace(replay=store(state.replay, rows, before % self.capacity))
        written = before + c.rows_per_round
        first = self.first_round
        update_key, grow_key = jax.random.split(key)
        state = self._grow(grow_key, state, round_, written)

        def learn(state: LearnerState) -> tuple[LearnerState, Array]:
            frame = jax.lax.cond(
                round_ == first, lambda: self._found_frame(state), lambda: state.frame
            )
            state = state._replace(frame=frame)
            keys = jax.random.split(update_key, c.updates_per_round)
            numbers = (round_ - first) * c.updates_per_round + jnp.arange(c.updates_per_round)

            def one(state, inputs):
                key, number = inputs
                return self._update(key, number, state, written, round_)

            state, losses = jax.lax.scan(one, state, (keys, numbers))
            return state, jnp.mean(losses)

        def wait(state: LearnerState) -> tuple[LearnerState, Array]:
            return state, jnp.zeros(())

        state, loss = jax.lax.cond(round_ >= first, learn, wait, state)
        return state, {"loss": loss}

    @property
    def first_round(self) -> int:
        """The round after whose steps learning starts."""
        c = self.config
        enough = max(c.learning_starts, c.n_envs * (c.n_step + 1))
        return max(-(-enough // c.steps_per_round) - 1, 0)

    def _found_frame(self, state: LearnerState) -> Frame:
        """Scales and support, from the random steps."""
        c = self.config
        n_rows = (self.first_round + 1) * c.rows_per_round
        seen = jax.tree.map(lambda a: a[: min(n_rows, self.capacity)], state.replay)
        scaling, support = state.frame.scaling, state.frame.support
        if c.normalise:
            shape = self.reader.shape
            scaling = scaling.fitted(seen.observation.astype(jnp.float32).reshape(-1, *shape))
        if c.support is None:
            support = first_support(seen, c.gamma)
            if not self.algorithm.can_move:
                support = support.widest()
        return Frame(scaling, support)

    def _update(
        self,
        key: Key[Array, ""],
        number: Int[Array, ""],
        state: LearnerState,
        written: Int[Array, ""],
        round_: Int[Array, ""],
    ) -> tuple[LearnerState, Array]:
        c = self.config
        sample_key, loss_key = jax.random.split(key)
        batch = sample(state.replay, sample_key, c.batch_size, c.n_step, c.gamma, written)
        following = self.read(state.slow, state.frame, batch.following)
        if c.double:
            next_action = self.greedy(state.network, state.frame, batch.following)
        else:
            next_action = self.best(following, state.frame)
        loss, gradient = jax.value_and_grad(self._batch_loss)(
            state.network, state.slow, state.frame, loss_key, batch, following, next_action
        )
        updates, moments = self._transform().update(gradient, state.moments)
        done = round_ * c.steps_per_round / c.steps
        rate = c.learning_rate * (1 + (c.learning_rate_end - 1) * done)
        network = jax.tree.map(lambda w, u: w - rate * u, state.network, updates)
        if c.average:
            # Short at first, so that the random start is forgotten.
            memory = jnp.minimum(c.average, (1 + number) / (10 + number))
            average = optax.incremental_update(network, state.average, 1 - memory)
        else:
            average = network
        state = state._replace(
            network=network,
            slow=self._slow(network, state.slow, number),
            average=average,
            moments=moments,
        )
        return state, loss

    def _slow(self, network: Any, slow: Any, number: Int[Array, ""]) -> Any:
        c = self.config
        if not c.target_every:
            return optax.incremental_update(network, slow, c.target_rate)
        now = (number + 1) % c.target_every == 0
        return jax.tree.map(lambda new, old: jnp.where(now, new, old), network, slow)

    def _batch_loss(
        self, network, slow, frame, key, batch: Transition, following, next_action
    ) -> Array:
        def one(number, transition, following, action):
            own = jax.random.fold_in(key, number)
            return self.algorithm.loss(network, slow, frame, transition, following, action, own)

        numbers = jnp.arange(self.config.batch_size)
        return jnp.mean(jax.vmap(one)(numbers, batch, following, next_action))

    def _transform(self) -> optax.GradientTransformation:
        return optax.chain(
            optax.clip_by_global_norm(self.config.max_grad_norm), optax.scale_by_adam(eps=1e-5)
        )

    def _grow(
        self,
        key: Key[Array, ""],
        state: LearnerState,
        round_: Int[Array, ""],
        written: Int[Array, ""],
    ) -> LearnerState:
        """Now and then: widen the support where returns spill over it; the networks move with it."""
        c = self.config
        if c.support is not None:
            return state

        def widened() -> tuple[Any, Any, Any, Frame]:
            batch = sample(state.replay, key, _SPILL_BATCH, c.n_step, c.gamma, written)
            frame = state.frame
            following = self.read(state.slow, frame, batch.following)
            spill = jax.vmap(lambda *inputs: self.algorithm.spill(frame, *inputs))
            below, above = map(jnp.mean, spill(batch, following, self.best(following, frame)))
            old = frame.support
            new = grown(old, below, above, state.replay.reward, c.gamma, _SPILL)
            same = (new.low == old.low) & (new.high == old.high)

            def move(network: Any) -> Any:
                moved = self.algorithm.moved(network, old, new)
                return jax.tree.map(lambda a, b: jnp.where(same, a, b), network, moved)

            networks = (move(n) for n in (state.network, state.slow, state.average))
            return *networks, Frame(frame.scaling, new)

        def as_it_is() -> tuple[Any, Any, Any, Frame]:
            return state.network, state.slow, state.average, state.frame

        # The number of the round is the same for all seeds: one of the two is run, not both.
        due = (round_ > self.first_round) & (round_ % _GROW_ROUNDS == 0)
        network, slow, average, frame = jax.lax.cond(due, widened, as_it_is)
        return state._replace(network=network, slow=slow, average=average, frame=frame)


class JaxLearner(eqx.Module):
    """The learner with environments inside the jitted program."""

    learner: Learner
    environment: JaxEnvironment

    @property
    def config(self) -> AgentConfig:
        """The settings."""
        return self.learner.config

    def init(self, key: Key[Array, ""]) -> LearnerState:
        """Networks and environments before the first step."""
        keys = jax.random.split(Streams.of(key).start, self.config.n_envs)
        state, observation = jax.vmap(self.environment.reset)(keys)
        actors = Actors(state, observation, jnp.zeros(self.config.n_envs))
        return self.learner.init(key)._replace(actors=actors)

    def chunk(
        self, key: Key[Array, ""], state: LearnerState, first_round: Int[Array, ""]
    ) -> tuple[LearnerState, dict[str, Array]]:
        """The rounds up to the next judgement, and their figures."""

        def one(state, round_):
            return self._round(round_key(key, round_), state, round_)

        rounds = first_round + jnp.arange(self.config.rounds_per_chunk)
        state, figures = jax.lax.scan(one, state, rounds)
        n_ended = figures["n_ended"].sum()
        total = jnp.where(n_ended > 0, figures["total"].sum() / n_ended, jnp.nan)
        return state, {
            "loss": figures["loss"].mean(),
            "train_return": total,
            "epsilon": self.learner.epsilon(rounds[-1] * self.config.steps_per_round),
        }

    def _round(
        self, key: Key[Array, ""], state: LearnerState, round_: Int[Array, ""]
    ) -> tuple[LearnerState, dict[str, Array]]:
        c = self.config
        epsilon = self.learner.epsilon(round_ * c.steps_per_round)
        luck_key, key = jax.random.split(key)
        luck = self._luck(luck_key, epsilon)

        def one(actors: Actors, luck: Luck):
            return self._step(state, actors, luck)

        actors, (rows, totals, ended) = jax.lax.scan(one, state.actors, luck)
        state, figures = self.learner.absorb(key, state._replace(actors=actors), rows, round_)
        return state, figures | {"total": totals.sum(), "n_ended": ended.sum()}

    def _luck(self, key: Key[Array, ""], epsilon: Array) -> Luck:
        """All chance of a round at once: drawn inside the loop it costs more than the steps."""
        c = self.config
        shape = (c.rows_per_round, c.n_envs)
        explore_key, step_key, reset_key = jax.random.split(key, 3)
        deviates, action = self.learner.random_actions(explore_key, shape, epsilon)
        reset_keys = jax.random.split(reset_key, shape)
        fresh = jax.vmap(jax.vmap(self.environment.reset))(reset_keys)
        return Luck(deviates, action, jax.random.split(step_key, shape), fresh)

    def _step(
        self, state: LearnerState, actors: Actors, luck: Luck
    ) -> tuple[Actors, tuple[Rows, Array, Array]]:
        """All environments once; ended ones start again."""
        best = self.learner.greedy(state.network, state.frame, actors.observation)
        action = jnp.where(luck.deviates, luck.action, best)
        now, step = jax.vmap(self.environment.step)(luck.step_keys, actors.state, action)
        ended = step.terminated | step.truncated
        now, observation = _where(ended, luck.fresh, (now, step.observation))
        total = actors.total + step.reward
        flags = (a.astype(jnp.float32) for a in (step.terminated, ended))
        rows = Rows(actors.observation, action, step.reward, step.observation, *flags)
        finished = jnp.sum(jnp.where(ended, total, 0.0))
        actors = Actors(now, observation, jnp.where(ended, 0.0, total))
        return actors, (rows, finished, ended.sum())

    def evaluate(self, key: Key[Array, ""], state: LearnerState) -> Float[Array, " episodes"]:
        """Returns of greedy episodes, without discount."""
        start_key, run_key = jax.random.split(key)
        start = jax.vmap(self.environment.reset)(
            jax.random.split(start_key, self.config.eval_episodes)
        )
        return self.follow(run_key, state.average, state.frame, start, gamma=1.0)

    def follow(
        self,
        key: Key[Array, ""],
        network: Any,
        frame: Frame,
        start: tuple[EnvState, Array],
        gamma: float,
        horizon: int | None = None,
    ) -> Float[Array, " n"]:
        """Discounted returns of the greedy policy from states and what is seen of them.

        To the episodes' end; with a horizon, for so many steps, through time limits.
        """
        n = start[1].shape[0]
        most = self.environment.spec.longest if horizon is None else horizon

        def go_on(carry) -> Bool[Array, ""]:
            return ~jnp.all(carry[-1]) & (carry[0] < most)

        def one(carry):
            t, env_state, observation, total, over = carry
            keys = jax.random.split(jax.random.fold_in(key, t), n)
            action = self.learner.greedy(network, frame, observation)
            now, step = jax.vmap(self.environment.step)(keys, env_state, action)
            total = total + jnp.where(over, 0.0, gamma**t * step.reward)
            over = over | step.terminated
            if horizon is None:
                over = over | step.truncated
            return t + 1, now, step.observation, total, over

        carry = (jnp.zeros((), jnp.int32), *start, jnp.zeros(n), jnp.zeros(n, bool))
        return jax.lax.while_loop(go_on, one, carry)[3]


def _where(choice: Bool[Array, " n"], yes: Any, no: Any) -> Any:
    def pick(a: Array, b: Array) -> Array:
        return jnp.where(choice.reshape(-1, *([1] * (a.ndim - 1))), a, b)

    return jax.tree.map(pick, yes, no)
