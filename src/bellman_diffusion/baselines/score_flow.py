"""A denoising score model at many noise levels, sampled along its probability flow (Song et al. 2021).

x_σ = x + σε, the score is −ε̂/σ, and rows follow dx/dσ = −σ · score from σ_max down to σ_min by Heun
steps.
"""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from bellman_diffusion.baselines.noise_prediction import Levels, Shape, fit_noise
from bellman_diffusion.standardise import Standardiser
from bellman_diffusion.training import Progress

_LEARNED_LEVELS = 1000


@dataclass(frozen=True)
class ScoreFlowSettings:
    """What the model is made of. Noise levels are in standard deviations of the columns."""

    layers: tuple[int, ...] = (256, 256, 256)
    sigma_min: float = 0.01
    sigma_max: float = 20.0
    n_steps: int = 100
    max_iter: int = 8000
    batch_size: int = 512
    learning_rate: float = 1e-3


_DEFAULT = ScoreFlowSettings()


class ScoreFlowModel:
    """Learns scores at all noise levels, and follows them down."""

    def __init__(self, settings: ScoreFlowSettings = _DEFAULT, random_state: int = 0) -> None:
        self.settings = settings
        self.random_state = random_state

    def fit(
        self,
        X: Float[np.ndarray, "n dim"],
        *,
        validation: Float[np.ndarray, "m dim"] | None = None,
        progress: Progress | None = None,
    ) -> "ScoreFlowModel":
        """Learn from the rows of X; `validation` rows say when to stop."""
        c = self.settings
        self.standardiser_ = Standardiser.fit(X)
        sigmas = np.geomspace(c.sigma_min, c.sigma_max, _LEARNED_LEVELS)
        self.network_ = fit_noise(
            self.standardiser_.forward(X),
            Levels(np.ones(_LEARNED_LEVELS), sigmas),
            Shape(c.layers, c.batch_size, c.learning_rate),
            c.max_iter,
            self.random_state,
            validation=None if validation is None else self.standardiser_.forward(validation),
            progress=progress,
        )
        return self

    def sample(self, n_samples: int, random_state: int = 0) -> Float[np.ndarray, "n dim"]:
        """Rows at the end of the flow."""
        dim = len(self.standardiser_.mean)
        z = follow_flow(self.network_, jax.random.key(random_state), n_samples, dim, self.settings)
        return self.standardiser_.backward(np.asarray(z))


@eqx.filter_jit
def follow_flow(
    network: Callable[[Array, Array], Array],
    key: Key[Array, ""],
    n: int,
    dim: int,
    settings: ScoreFlowSettings,
) -> Float[Array, "n dim"]:
    """From noise at σ_max to data at σ_min; the last step takes the rest of the noise off."""
    low, high = settings.sigma_min, settings.sigma_max
    sigmas = jnp.geomspace(high, low, settings.n_steps)

    def noise(x: Array, sigma: Array) -> Array:
        time = jnp.log(sigma / low) / jnp.log(high / low)
        return jax.vmap(lambda row: network(row / jnp.sqrt(1 + sigma**2), time))(x)

    def heun(x: Array, pair: tuple[Array, Array]) -> tuple[Array, None]:
        # dx/dσ = ε̂.
        sigma, following = pair
        slope = noise(x, sigma)
        ahead = noise(x + (following - sigma) * slope, following)
        return x + (following - sigma) * 0.5 * (slope + ahead), None

    start = jnp.sqrt(1 + high**2) * jax.random.normal(key, (n, dim))
    x, _ = jax.lax.scan(heun, start, (sigmas[:-1], sigmas[1:]))
    return x - low * noise(x, sigmas[-1])
