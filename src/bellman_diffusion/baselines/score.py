"""A score-based model at one noise level, sampled by Langevin dynamics (Song & Ermon 2019).

The model that the paper says cannot find the weights of modes. It is a field like the others, with
s = 1 and g = score, so that `Langevin` samples it.
"""

from functools import lru_cache
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from bellman_diffusion.dynamics import Box, Langevin, Samples, normal_start, sample
from bellman_diffusion.fields import AbstractField
from bellman_diffusion.fields.networks import mlp
from bellman_diffusion.standardise import Standardiser
from bellman_diffusion.training import Progress, Trainer
from bellman_diffusion.training.optimiser import Schedule

_CHUNK_STEPS = 200
_BATCH = 512
_SCHEDULE = Schedule(learning_rate=5e-3)


class ScoreField(AbstractField):
    """∇log p_σ as a network, in the shape that `Langevin` takes: g/s is the score.

    It is not a minimiser of the field losses, so `score()`, which is for those, does not apply.
    """

    network: eqx.nn.MLP

    def scalar_and_gradient(
        self, x: Float[Array, " dim"]
    ) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
        """s = 1 and g = the score."""
        return jnp.ones(()), self.network(x)


class ScoreModel:
    """Denoising score matching at noise `sigma` (in standard deviations), then Langevin."""

    def __init__(
        self,
        *,
        sigma: float = 0.1,
        width: int = 128,
        depth: int = 3,
        max_iter: int = 4000,
        n_steps: int = 500,
        step_size: float = 0.005,
        random_state: int = 0,
    ) -> None:
        self.sigma = sigma
        self.width = width
        self.depth = depth
        self.max_iter = max_iter
        self.n_steps = n_steps
        self.step_size = step_size
        self.random_state = random_state

    def fit(self, X: Float[np.ndarray, "n dim"], progress: Progress | None = None) -> "ScoreModel":
        """Learn the score of the rows of X."""
        self.standardiser_ = Standardiser.fit(X)
        z = self.standardiser_.forward(X)
        self.box_, self.range_ = Box.around(z), Box.around(z, margin=0.0)
        trainer = _trainer(self.width, self.depth, self.sigma, z.shape[1])
        data, seed = jnp.asarray(z), self.random_state
        self.field_ = trainer.fit(seed, self.max_iter, data, len(z), progress=progress).model
        return self

    def sample(
        self, n_samples: int, random_state: int = 0, start: Literal["uniform", "normal"] = "uniform"
    ) -> Samples:
        """Paths of Langevin dynamics, from a uniform start (Song & Ermon's) or a normal one."""
        key_start, key_paths = jax.random.split(jax.random.key(random_state))
        dim = len(self.standardiser_.mean)
        if start == "uniform":
            unit = np.asarray(jax.random.uniform(key_start, (n_samples, dim)))
            first = self.range_.low + unit * (self.range_.high - self.range_.low)
        else:
            first = np.asarray(normal_start(key_start, n_samples, jnp.eye(dim)))
        dynamics = Langevin(field=self.field_, step_size=self.step_size, n_steps=self.n_steps)
        result = sample(dynamics, key_paths, first, box=self.box_, max_lost=1.0)
        return result._replace(x=self.standardiser_.backward(result.x))


@lru_cache(maxsize=16)
def _trainer(width: int, depth: int, sigma: float, dim: int) -> Trainer:
    def init(key: Key[Array, ""]) -> ScoreField:
        return ScoreField(mlp(key, dim, dim, width, depth))

    def loss(field, _average, key, data, n_rows):
        key_rows, key_noise = jax.random.split(key)
        x = data[jax.random.randint(key_rows, (_BATCH,), 0, n_rows)]
        noise = jax.random.normal(key_noise, x.shape)
        error = sigma * jax.vmap(field.gradient)(x + sigma * noise) + noise
        return jnp.mean(jnp.sum(error**2, axis=1)), {}

    return Trainer.compile(init, loss, _SCHEDULE, _CHUNK_STEPS)
