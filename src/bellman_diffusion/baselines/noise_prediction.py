"""Networks that learn the noise in a row, for the diffusion baselines.

At level t a row is x_t = signal_t · x + noise_t · ε, and a network learns ε from x_t and t. DDPM and
the denoising score model differ in their levels and in how they go back.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from bellman_diffusion.training import Progress, Trainer
from bellman_diffusion.training.optimiser import Schedule

_CHUNK_STEPS = 100
_TIME_FEATURES = 32
_MOST_QUANTILES = 1000


class Levels(NamedTuple):
    """What is left of a row at each level, how much noise there is, and how wide x_t is by then."""

    signal: Float[np.ndarray, " levels"]
    noise: Float[np.ndarray, " levels"]

    @property
    def width(self) -> Float[np.ndarray, " levels"]:
        """The deviation of x_t for data of deviation 1: what the network's input is divided by."""
        return np.sqrt(self.signal**2 + self.noise**2)


class NoiseNetwork(eqx.Module):
    """ε from x_t, of deviation 1, and t."""

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


@dataclass(frozen=True)
class NoiseSettings:
    """What every model of this kind is made of."""

    layers: tuple[int, ...] = (256, 256, 256)
    max_iter: int = 5000
    batch_size: int = 256
    learning_rate: float = 1e-3
    transform: str = "standard"
    """standard, or quantile (to normal marginals)."""


class NoiseModel:
    """Learns the noise at some levels; a subclass says at which, and takes it out again."""

    settings: Any
    random_state: int

    @abstractmethod
    def levels(self) -> Levels:
        """The levels that are learned."""

    @abstractmethod
    def draw(self, key: Key[Array, ""], n: int, dim: int) -> Float[Array, "n dim"]:
        """Transformed rows from noise."""

    def fit(
        self,
        X: Float[np.ndarray, "n dim"],
        *,
        validation: Float[np.ndarray, "m dim"] | None = None,
        progress: Progress | None = None,
    ) -> "NoiseModel":
        """Learn from the rows of X; `validation` rows say when to stop."""
        c: NoiseSettings = self.settings
        self.transform_ = _transform(c.transform, len(X)).fit(X)
        self.dim_ = X.shape[1]
        rows = np.asarray(self.transform_.transform(X), np.float32)
        self.range_ = np.stack([rows.min(axis=0), rows.max(axis=0)])
        levels = self.levels()
        table = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), (*levels, levels.width))
        trainer = _trainer(c.layers, c.batch_size, c.learning_rate, self.dim_)
        self.network_ = trainer.fit(
            self.random_state,
            c.max_iter,
            (jnp.asarray(rows), table),
            len(rows),
            validation=None if validation is None else self.transform_.transform(validation),
            progress=progress,
        ).model
        return self

    def sample(self, n_samples: int, random_state: int = 0) -> Float[np.ndarray, "n dim"]:
        """New rows."""
        z = self.draw(jax.random.key(random_state), n_samples, self.dim_)
        return np.asarray(self.transform_.inverse_transform(np.asarray(z, float)))


def _transform(name: str, n_rows: int) -> Any:
    if name == "quantile":
        n_quantiles = min(_MOST_QUANTILES, n_rows)
        return QuantileTransformer(
            n_quantiles=n_quantiles, output_distribution="normal", random_state=0
        )
    return StandardScaler()


@lru_cache(maxsize=16)
def _trainer(layers: tuple[int, ...], batch_size: int, learning_rate: float, dim: int) -> Trainer:
    def init(key: Key[Array, ""]) -> NoiseNetwork:
        return NoiseNetwork(key, dim, layers)

    def error(network, key, x, table):
        signal, noise, width = table
        key_time, key_noise = jax.random.split(key)
        t = jax.random.randint(key_time, (len(x),), 0, len(signal))
        drawn = jax.random.normal(key_noise, x.shape)
        mixed = (signal[t][:, None] * x + noise[t][:, None] * drawn) / width[t][:, None]
        missed = jax.vmap(network)(mixed, t / len(signal)) - drawn
        return jnp.mean(jnp.sum(missed**2, axis=1))

    def loss(network, _average, key, data, n_rows):
        rows, table = data
        key_rows, key_error = jax.random.split(key)
        x = rows[jax.random.randint(key_rows, (batch_size,), 0, n_rows)]
        return error(network, key_error, x, table), {}

    def validation_loss(network, points, data, _n_rows):
        return error(network, jax.random.key(0), points, data[1])

    schedule = Schedule(learning_rate)
    return Trainer.compile(init, loss, schedule, _CHUNK_STEPS, validation_loss=validation_loss)
