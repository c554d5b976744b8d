"""DDPM (Ho, Jain, Abbeel 2020) for tables: the paper's baseline.

A network learns the noise ε that was mixed into a row, x_t = √ᾱ_t x_0 + √(1 − ᾱ_t) ε, and rows are made
by taking it out again in T steps. The schedule of ᾱ is a cosine (Nichol & Dhariwal 2021), as TabDDPM
has it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from bellman_diffusion.baselines.noise_prediction import Levels, NoiseModel, NoiseSettings


@dataclass(frozen=True)
class DdpmSettings(NoiseSettings):
    """What a DDPM is made of."""

    n_times: int = 300


_DEFAULT = DdpmSettings()
# The settings that TabDDPM published for Abalone; its batch of 4096 rows is larger than the table.
TABDDPM_ABALONE = DdpmSettings(
    layers=(512, 128),
    n_times=100,
    max_iter=30_000,
    batch_size=4096,
    learning_rate=3.442e-4,
    transform="quantile",
)


class DDPM(NoiseModel):
    """Learns the noise, and takes it out again."""

    def __init__(self, settings: DdpmSettings = _DEFAULT, random_state: int = 0) -> None:
        self.settings = settings
        self.random_state = random_state

    def levels(self) -> Levels:
        """The cosine schedule's."""
        shares = signal_shares(self.settings.n_times)
        return Levels(np.sqrt(shares), np.sqrt(1 - shares))

    def draw(self, key: Key[Array, ""], n: int, dim: int) -> Float[Array, "n dim"]:
        """Ancestral sampling."""
        return _sample(self.network_, key, n, dim, self.settings.n_times, jnp.asarray(self.range_))


def signal_shares(n_times: int) -> Float[np.ndarray, " n_times"]:
    """ᾱ_t by the cosine schedule: what is left of the data's variance after t + 1 steps."""
    t = np.arange(n_times + 1) / n_times
    share = np.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
    # No step takes more than 0.999 of what is left.
    steps = np.maximum(share[1:] / share[:-1], 0.001)
    return np.cumprod(steps)


@eqx.filter_jit
def _sample(
    network: Callable[[Array, Array], Array],
    key: Key[Array, ""],
    n: int,
    dim: int,
    n_times: int,
    bounds: Float[Array, "2 dim"],
) -> Float[Array, "n dim"]:
    shares = jnp.asarray(signal_shares(n_times), jnp.float32)
    before = jnp.concatenate([jnp.ones(1), shares[:-1]])
    start_key, key = jax.random.split(key)

    def back(x: Array, t: Array) -> tuple[Array, None]:
        share, left = shares[t], before[t]
        alpha = share / left
        noise = jax.vmap(lambda row: network(row, t / n_times))(x)
        # Where hardly any of the row is left, a small error in the noise is a large one in the row.
        clean = jnp.clip((x - jnp.sqrt(1 - share) * noise) / jnp.sqrt(share), *bounds)
        mean = (jnp.sqrt(left) * (1 - alpha) * clean + jnp.sqrt(alpha) * (1 - left) * x) / (
            1 - share
        )
        deviation = jnp.sqrt((1 - left) / (1 - share) * (1 - alpha))
        return mean + deviation * jax.random.normal(jax.random.fold_in(key, t), x.shape), None

    x = jax.random.normal(start_key, (n, dim))
    return jax.lax.scan(back, x, jnp.arange(n_times - 1, -1, -1))[0]
