"""DDPM (Ho, Jain, Abbeel 2020) for tables: the paper's baseline.

A network learns the noise ε that was mixed into a row, x_t = √ᾱ_t x_0 + √(1 − ᾱ_t) ε, and rows are made
by taking it out again in T steps. The schedule of ᾱ is a cosine (Nichol & Dhariwal 2021), as TabDDPM
has it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from bellman_diffusion.baselines.noise_prediction import Levels, Shape, fit_noise
from bellman_diffusion.training import Progress

_MOST_QUANTILES = 1000


@dataclass(frozen=True)
class DdpmSettings:
    """What a DDPM is made of."""

    layers: tuple[int, ...] = (256, 256, 256)
    n_times: int = 1000
    max_iter: int = 8000
    batch_size: int = 512
    learning_rate: float = 1e-3
    transform: str = "standard"
    """standard, or quantile (to normal marginals)."""


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


class DDPM:
    """Learns the noise, and takes it out again."""

    def __init__(self, settings: DdpmSettings = _DEFAULT, random_state: int = 0) -> None:
        self.settings = settings
        self.random_state = random_state

    def fit(
        self,
        X: Float[np.ndarray, "n dim"],
        *,
        validation: Float[np.ndarray, "m dim"] | None = None,
        progress: Progress | None = None,
    ) -> "DDPM":
        """Learn from the rows of X; `validation` rows say when to stop."""
        c = self.settings
        self.transform_ = _transform(c.transform, len(X)).fit(X)
        shares = signal_shares(c.n_times)
        self.network_ = fit_noise(
            self.transform_.transform(X),
            Levels(np.sqrt(shares), np.sqrt(1 - shares)),
            Shape(c.layers, c.batch_size, c.learning_rate),
            c.max_iter,
            self.random_state,
            validation=None if validation is None else self.transform_.transform(validation),
            progress=progress,
        )
        self.dim_ = X.shape[1]
        return self

    def sample(self, n_samples: int, random_state: int = 0) -> Float[np.ndarray, "n dim"]:
        """Ancestral sampling."""
        key = jax.random.key(random_state)
        z = _sample(self.network_, key, n_samples, self.dim_, self.settings.n_times)
        return np.asarray(self.transform_.inverse_transform(np.asarray(z, float)))


def signal_shares(n_times: int) -> Float[np.ndarray, " n_times"]:
    """ᾱ_t by the cosine schedule: what is left of the data's variance after t + 1 steps."""
    t = np.arange(n_times + 1) / n_times
    share = np.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
    # No step takes more than 0.999 of what is left.
    steps = np.maximum(share[1:] / share[:-1], 0.001)
    return np.cumprod(steps)


def _transform(name: str, n_rows: int) -> Any:
    if name == "quantile":
        n_quantiles = min(_MOST_QUANTILES, n_rows)
        return QuantileTransformer(
            n_quantiles=n_quantiles, output_distribution="normal", random_state=0
        )
    return StandardScaler()


@eqx.filter_jit
def _sample(
    network: Callable[[Array, Array], Array],
    key: Key[Array, ""],
    n: int,
    dim: int,
    n_times: int,
) -> Float[Array, "n dim"]:
    shares = jnp.asarray(signal_shares(n_times), jnp.float32)
    before = jnp.concatenate([jnp.ones(1), shares[:-1]])
    start_key, key = jax.random.split(key)

    def back(x: Array, t: Array) -> tuple[Array, None]:
        share, left = shares[t], before[t]
        alpha = share / left
        noise = jax.vmap(lambda row: network(row, t / n_times))(x)
        clean = (x - jnp.sqrt(1 - share) * noise) / jnp.sqrt(share)
        mean = (jnp.sqrt(left) * (1 - alpha) * clean + jnp.sqrt(alpha) * (1 - left) * x) / (
            1 - share
        )
        deviation = jnp.sqrt((1 - left) / (1 - share) * (1 - alpha))
        return mean + deviation * jax.random.normal(jax.random.fold_in(key, t), x.shape), None

    x = jax.random.normal(start_key, (n, dim))
    return jax.lax.scan(back, x, jnp.arange(n_times - 1, -1, -1))[0]
