"""A convolutional variational autoencoder (Kingma & Welling 2014) for small square images.

Two halvings, two dense layers, and the same way back. Images are padded to a multiple of 4 inside and
cut to their size again.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bellman_diffusion.images.convolution import (
    Convolution,
    Doubling,
    Image,
    halvings,
    padded_to_four,
)


class VAE(eqx.Module):
    """Images of shape (channels, size, size), values in [0, 1], to latents and back."""

    down: list[Convolution]
    into: eqx.nn.Linear
    to_latent: eqx.nn.Linear
    from_latent: eqx.nn.Linear
    out_of: eqx.nn.Linear
    up: list[Doubling]
    size: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    latent_dim: int = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        key: Key[Array, ""],
        *,
        size: int,
        channels: int = 1,
        latent_dim: int = 16,
        width: int = 16,
        hidden: int = 256,
    ) -> "VAE":
        """Random weights; `width` channels after the first halving, twice as many after the second."""
        keys = jax.random.split(key, 7)
        flat = 2 * width * _quarter(size) ** 2
        return cls(
            down=halvings(keys[0], channels, width),
            into=eqx.nn.Linear(flat, hidden, key=keys[1]),
            to_latent=eqx.nn.Linear(hidden, 2 * latent_dim, key=keys[2]),
            from_latent=eqx.nn.Linear(latent_dim, hidden, key=keys[3]),
            out_of=eqx.nn.Linear(hidden, flat, key=keys[4]),
            up=[Doubling(2 * width, width, keys[5]), Doubling(width, channels, keys[6])],
            size=size,
            channels=channels,
            latent_dim=latent_dim,
        )

    def encode(self, image: Image) -> tuple[Float[Array, " latent"], Float[Array, " latent"]]:
        """Mean and deviation of an image's latent posterior."""
        x = padded_to_four(image)
        for layer in self.down:
            x = jax.nn.silu(layer(x))
        mean, log_variance = jnp.split(self.to_latent(jax.nn.silu(self.into(x.ravel()))), 2)
        # Bounded, so that no step of training can make a deviation overflow.
        return mean, jnp.exp(0.5 * jnp.clip(log_variance, -12.0, 6.0))

    def decode(self, latent: Float[Array, " latent"]) -> Image:
        """The image of a latent, as log-odds of every value."""
        side = _quarter(self.size)
        x = jax.nn.silu(self.out_of(jax.nn.silu(self.from_latent(latent))))
        x = jax.nn.silu(self.up[0](x.reshape(side, side, -1)))
        return jnp.moveaxis(self.up[1](x)[: self.size, : self.size], 2, 0)


def _quarter(size: int) -> int:
    return -(-size // 4)


def vae_loss(
    vae: VAE, key: Key[Array, ""], images: Float[Array, "n channels size size"], kl_weight: float
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """Minus an image's evidence bound: cross-entropy of its values and the latent's divergence."""
    mean, deviation = jax.vmap(vae.encode)(images)
    latents = mean + deviation * jax.random.normal(key, mean.shape)
    logits = jax.vmap(vae.decode)(latents)
    entropy = jnp.maximum(logits, 0) - logits * images + jnp.log1p(jnp.exp(-jnp.abs(logits)))
    distortion = jnp.mean(jnp.sum(entropy, axis=(1, 2, 3)))
    divergence = jnp.mean(jnp.sum(0.5 * (mean**2 + deviation**2 - 1) - jnp.log(deviation), axis=1))
    figures = {"loss/distortion": distortion, "loss/divergence": divergence}
    return distortion + kl_weight * divergence, figures
