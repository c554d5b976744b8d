"""Distances between samples."""

from bellman_diffusion.metrics.wasserstein import wasserstein_1

__all__ = ["wasserstein_1"]
