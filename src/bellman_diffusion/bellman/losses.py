"""One-step losses of a return field on sampled transitions (Algorithm 3 and its repairs).

Each takes the learned field, the slowly moving copy that gives the targets, a key and a batch.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bellman_diffusion.bellman.return_fields import CategoricalField, CramerField, PaperField
from bellman_diffusion.bellman.target import BellmanTarget


class Batch(NamedTuple):
    """Transitions as rows. A truncated episode has not terminated: its last state has a future."""

    observation: Float[Array, "n features"]
    reward: Float[Array, " n"]
    following: Float[Array, "n features"]
    terminated: Float[Array, " n"]


def cramer_loss(
    field: CramerField, slow: CramerField, target: BellmanTarget, batch: Batch
) -> Float[Array, ""]:
    """Cramér's distance to the noise-preserving backup.

    The loss is quadratic and the backup linear, so the mean over transitions is the Bellman target.
    """
    wanted = target(slow.coefficients(batch.following), batch.reward, batch.terminated)
    wanted = jax.lax.stop_gradient(wanted @ field.from_coefficients.T)
    return jnp.mean(jnp.sum((field.outputs(batch.observation) - wanted) ** 2, axis=-1))


def cross_entropy_loss(
    field: CategoricalField, slow: CategoricalField, target: BellmanTarget, batch: Batch
) -> Float[Array, ""]:
    """C51's cross-entropy with the projected target."""
    wanted = target(slow.coefficients(batch.following), batch.reward, batch.terminated)
    logs = jax.nn.log_softmax(field.outputs(batch.observation))
    return -jnp.mean(jnp.sum(jax.lax.stop_gradient(wanted) * logs, axis=-1))


def algorithm_3_loss(
    field: PaperField,
    slow: PaperField,
    gamma: float,
    sigma: float,
    epsilon: float,
    key: Key[Array, ""],
    batch: Batch,
) -> Float[Array, ""]:
    """Algorithm 3 with the right constants, over a batch: ends drawn from N(r, ξ), ξ = σ²."""
    n = batch.reward.shape[0]
    keys = jax.random.split(key, 3)
    uniform = jax.random.uniform(keys[0], (n,), minval=field.low, maxval=field.high)
    ends = batch.reward + sigma * jax.random.normal(keys[1], (n,))
    others = batch.reward + sigma * jax.random.normal(keys[2], (n,))

    def one(x, x1, x2, observation, reward, following, terminated):
        return algorithm_3(
            lambda y: field.fields(y, observation),
            lambda y: slow.fields(y, following),
            Draws(x, x1, x2),
            reward,
            gamma * (1 - terminated),
            (field.low, field.high),
            epsilon,
        )

    return jnp.mean(jax.vmap(one)(uniform, ends, others, *batch))


class Draws(NamedTuple):
    """The returns that Algorithm 3 looks at: one uniform, two from the law of an end."""

    uniform: Float[Array, ""]
    end: Float[Array, ""]
    other_end: Float[Array, ""]


FieldsAt = Callable[[Float[Array, ""]], tuple[Float[Array, ""], Float[Array, ""]]]


def algorithm_3(
    fields: FieldsAt,
    following: FieldsAt,
    draws: Draws,
    reward: Float[Array, ""],
    discount: Float[Array, ""],
    span: tuple[Float[Array, ""], Float[Array, ""]],
    epsilon: Float[Array, ""] | float,
) -> Float[Array, ""]:
    """Algorithm 3 for one transition, with the right constants: 1/γ for s, 1/γ² for g.

    Where the episode goes on (discount > 0), both fields regress to the plain backup at a uniform
    return; at its end they are matched to samples. Lengths are in units of half the span: the two
    parts weigh alike.
    """
    low, high = span
    half = (high - low) / 2
    going = jnp.where(discount > 0, discount, 1.0)
    place = (draws.uniform - reward) / going
    s_next, g_next = following(place)
    inside = (place >= low) & (place <= high)
    s_target = jnp.where(inside, s_next / going, 0.0)
    g_target = jnp.where(inside, g_next / going**2, 0.0)
    s, g = fields(draws.uniform)
    going_on = half**2 * (s - s_target) ** 2 + half**4 * (g - g_target) ** 2

    kernel = jax.scipy.stats.norm.pdf(draws.end - draws.other_end, 0.0, jnp.sqrt(epsilon))
    (s1, g1), (_, slope) = jax.jvp(fields, (draws.end,), (jnp.ones_like(draws.end),))
    ended = half**4 * (g1**2 + kernel * slope) + half**2 * (s1**2 - 2 * kernel * s1)
    return jnp.where(discount > 0, going_on, ended)
