"""Images: an autoencoder and a model of its latents (Appendix F.1)."""

from bellman_diffusion.images.model import ImageModel, ImageSettings

__all__ = ["ImageModel", "ImageSettings"]
