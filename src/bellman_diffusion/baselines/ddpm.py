"""DDPM (Ho, Jain, Abbeel 2020) for tables: the paper's baseline.

A network learns the noise ε that was mixed into a row, x_t = √ᾱ_t x_0 + √(1 − ᾱ_t) ε, and rows are made
by taking it out again in T steps. The schedule of ᾱ is a cosine (Nichol & Dhariwal 2021), as TabDDPM
has it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from bellman_diffusion.training import Progress, averaged, init_state, make_program, train
from bellman_diffusion.training.optimiser import Schedule

_CHUNK_STEPS = 200
_TIME_FEATURES = 32
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


class NoiseNetwork(eqx.Module):
    """ε from x_t and t."""

    layers: list[eqx.nn.Linear]

    def __init__(self, key: Key[Array, ""], dim: int, widths: tuple[int, ...]) -> None:
        sizes = (dim + _TIME_FEATURES, *widths, dim)
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes[:-1], sizes[1:], keys, strict=True)
        self.layers = [eqx.nn.Linear(n_in, n_out, key=k) for n_in, n_out, k in pairs]

    def __call__(self, x: Float[Array, " dim"], t: Float[Array, ""]) -> Float[Array, " dim"]:
        """The noise in x at time t of [0, 1]."""
        rates = 2 * jnp.pi * jnp.geomspace(0.1, 100.0, _TIME_FEATURES // 2)
        h = jnp.concatenate([x, jnp.sin(rates * t), jnp.cos(rates * t)])
        for layer in self.layers[:-1]:
            h = jax.nn.silu(layer(h))
        return self.layers[-1](h)


class DDPM:
    """Learns the noise, and takes it out again."""

    def __init__(self, settings: DdpmSettings = _DEFAULT, random_state: int = 0) -> None:
        self.settings = settings
        self.random_state = random_state

    def fit(self, X: Float[np.ndarray, "n dim"], progress: Progress | None = None) -> "DDPM":
        """Learn from the rows of X."""
        c = self.settings
        self.transform_ = _transform(c.transform, len(X)).fit(X)
        data = jnp.asarray(self.transform_.transform(X), jnp.float32)
        init, program, schedule = _compile(c, data.shape[1])
        key_init, key_steps = jax.random.split(jax.random.key(self.random_state))
        network = init(key_init)
        state, _ = train(
            lambda state, step, n: program(state, step, n, key_steps, data, len(data)),
            init_state(network, schedule),
            c.max_iter,
            _CHUNK_STEPS,
            progress=progress,
        )
        self.network_ = averaged(network, state)
        self.dim_ = data.shape[1]
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


@lru_cache(maxsize=16)
def _compile(c: DdpmSettings, dim: int) -> tuple[Any, Any, Schedule]:
    shares = jnp.asarray(signal_shares(c.n_times), jnp.float32)
    schedule = Schedule(c.learning_rate)

    def init(key: Key[Array, ""]) -> NoiseNetwork:
        return NoiseNetwork(key, dim, c.layers)

    def loss(network, _average, key, data, n_rows):
        key_rows, key_time, key_noise = jax.random.split(key, 3)
        x = data[jax.random.randint(key_rows, (c.batch_size,), 0, n_rows)]
        t = jax.random.randint(key_time, (c.batch_size,), 0, c.n_times)
        noise = jax.random.normal(key_noise, x.shape)
        share = shares[t][:, None]
        mixed = jnp.sqrt(share) * x + jnp.sqrt(1 - share) * noise
        error = jax.vmap(network)(mixed, t / c.n_times) - noise
        return jnp.mean(jnp.sum(error**2, axis=1)), {}

    template = eqx.filter_eval_shape(init, jax.random.key(0))
    program = make_program(template, loss, schedule, _CHUNK_STEPS)
    return eqx.filter_jit(init), program, schedule


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
