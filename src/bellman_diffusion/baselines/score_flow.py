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

from bellman_diffusion.baselines.noise_prediction import Levels, NoiseModel, NoiseSettings

_LEARNED_LEVELS = 1000


@dataclass(frozen=True)
class ScoreFlowSettings(NoiseSettings):
    """What the model is made of. Noise levels are in standard deviations of the columns."""

    sigma_min: float = 0.01
    sigma_max: float = 20.0
    n_steps: int = 100


_DEFAULT = ScoreFlowSettings()


class ScoreFlowModel(NoiseModel):
    """Learns scores at all noise levels, and follows them down."""

    def __init__(self, settings: ScoreFlowSettings = _DEFAULT, random_state: int = 0) -> None:
        self.settings = settings
        self.random_state = random_state

    def levels(self) -> Levels:
        """Evenly spaced in log σ, the data left as it is."""
        c = self.settings
        sigmas = np.geomspace(c.sigma_min, c.sigma_max, _LEARNED_LEVELS)
        return Levels(np.ones(_LEARNED_LEVELS), sigmas)

    def draw(self, key: Key[Array, ""], n: int, dim: int) -> Float[Array, "n dim"]:
        """Rows at the end of the flow."""
        return follow_flow(self.network_, key, n, dim, self.settings)


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
        sigma, next_sigma = pair
        slope = noise(x, sigma)
        ahead = noise(x + (next_sigma - sigma) * slope, next_sigma)
        return x + (next_sigma - sigma) * 0.5 * (slope + ahead), None

    start = jnp.sqrt(1 + high**2) * jax.random.normal(key, (n, dim))
    x, _ = jax.lax.scan(heun, start, (sigmas[:-1], sigmas[1:]))
    return x - low * noise(x, sigmas[-1])
