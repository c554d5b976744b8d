"""The learner with environments inside the jitted program."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.learner import Learner, LearnerState, Streams, round_key
from bellman_diffusion.agents.replay import Number, RandomKey, Rows
from bellman_diffusion.environments.base import EnvState, JaxEnvironment
from bellman_diffusion.returns.models import Normalisation


class Actors(NamedTuple):
    """The seed's environments."""

    state: EnvState
    observation: Array
    total: Float[Array, " env"]
    """The return of the running episode, without discount."""


class ExplorationNoise(NamedTuple):
    """All randomness of some steps: time first, then the environments."""

    explore: Bool[Array, "*n"]
    action: Int[Array, "*n"]
    step_keys: Key[Array, "*n"]
    resets: Any
    """What a reset would give."""


class JaxLearner(eqx.Module):
    """Pure functions of one seed's state, its environments included."""

    learner: Learner
    environment: JaxEnvironment

    @property
    def config(self) -> AgentConfig:
        """The settings."""
        return self.learner.config

    def init(self, key: RandomKey) -> LearnerState:
        """Networks and environments before the first step."""
        keys = jax.random.split(Streams.of(key).start, self.config.n_envs)
        state, observation = jax.vmap(self.environment.reset)(keys)
        actors = Actors(state, observation, jnp.zeros(self.config.n_envs))
        return self.learner.init(key)._replace(actors=actors)

    def chunk(
        self, key: RandomKey, state: LearnerState, first_round: Number
    ) -> tuple[LearnerState, dict[str, Array]]:
        """The rounds up to the next evaluation, and their figures."""

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
        self, key: RandomKey, state: LearnerState, round_: Number
    ) -> tuple[LearnerState, dict[str, Array]]:
        epsilon = self.learner.epsilon(round_ * self.config.steps_per_round)
        noise_key, key = jax.random.split(key)
        noise = self._exploration_noise(noise_key, epsilon)

        def one(actors: Actors, noise: ExplorationNoise):
            return self._step(state, actors, noise)

        actors, (rows, totals, ended) = jax.lax.scan(one, state.actors, noise)
        state, figures = self.learner.learn(key, state._replace(actors=actors), rows, round_)
        return state, figures | {"total": totals.sum(), "n_ended": ended.sum()}

    def _exploration_noise(self, key: RandomKey, epsilon: Array) -> ExplorationNoise:
        """All randomness of a round at once: drawn inside the loop it costs more than the steps."""
        c = self.config
        shape = (c.rows_per_round, c.n_envs)
        explore_key, step_key, reset_key = jax.random.split(key, 3)
        explore, action = self.learner.random_actions(explore_key, shape, epsilon)
        reset_keys = jax.random.split(reset_key, shape)
        resets = jax.vmap(jax.vmap(self.environment.reset))(reset_keys)
        return ExplorationNoise(explore, action, jax.random.split(step_key, shape), resets)

    def _step(
        self, state: LearnerState, actors: Actors, noise: ExplorationNoise
    ) -> tuple[Actors, tuple[Rows, Array, Array]]:
        """All environments once; ended ones start again."""
        best = self.learner.greedy(state.network, state.normalisation, actors.observation)
        action = jnp.where(noise.explore, noise.action, best)
        now, step = jax.vmap(self.environment.step)(noise.step_keys, actors.state, action)
        ended = step.terminated | step.truncated
        now, observation = where_rows(ended, noise.resets, (now, step.observation))
        total = actors.total + step.reward
        flags = (a.astype(jnp.float32) for a in (step.terminated, ended))
        rows = Rows(actors.observation, action, step.reward, step.observation, *flags)
        finished = jnp.sum(jnp.where(ended, total, 0.0))
        actors = Actors(now, observation, jnp.where(ended, 0.0, total))
        return actors, (rows, finished, ended.sum())

    def evaluate(self, key: RandomKey, state: LearnerState) -> Float[Array, " episodes"]:
        """Returns of greedy episodes, without discount."""
        network, normalisation = state.ema_network, state.normalisation
        return self.greedy_returns(key, network, normalisation, self.config.eval_episodes)

    def greedy_returns(
        self, key: RandomKey, network: Any, normalisation: Normalisation, n: int
    ) -> Float[Array, " n"]:
        """Returns of n greedy episodes from fresh starts, without discount."""
        start_key, run_key = jax.random.split(key)
        start = jax.vmap(self.environment.reset)(jax.random.split(start_key, n))
        return self.follow(run_key, network, normalisation, start, gamma=1.0)

    def follow(
        self,
        key: RandomKey,
        network: Any,
        normalisation: Normalisation,
        start: tuple[EnvState, Array],
        gamma: float,
        horizon: int | None = None,
    ) -> Float[Array, " n"]:
        """Discounted returns of the greedy policy from environment states and their observations.

        To the episodes' end; with a horizon, for so many steps, through time limits.
        """
        n = start[1].shape[0]
        most = self.environment.spec.longest if horizon is None else horizon

        def go_on(carry) -> Bool[Array, ""]:
            return ~jnp.all(carry[-1]) & (carry[0] < most)

        def one(carry):
            t, env_state, observation, total, over = carry
            keys = jax.random.split(jax.random.fold_in(key, t), n)
            action = self.learner.greedy(network, normalisation, observation)
            now, step = jax.vmap(self.environment.step)(keys, env_state, action)
            total = total + jnp.where(over, 0.0, gamma**t * step.reward)
            over = over | step.terminated
            if horizon is None:
                over = over | step.truncated
            return t + 1, now, step.observation, total, over

        carry = (jnp.zeros((), jnp.int32), *start, jnp.zeros(n), jnp.zeros(n, bool))
        return jax.lax.while_loop(go_on, one, carry)[3]


def where_rows(choice: Bool[Array, " n"], yes: Any, no: Any) -> Any:
    """The rows of one tree of arrays or of another."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(choice.reshape(-1, *([1] * (a.ndim - 1))), a, b)

    return jax.tree.map(pick, yes, no)
