"""Distances between samples, and what they say of copying."""

from bellman_diffusion.metrics.frechet import frechet_distance
from bellman_diffusion.metrics.mmd import median_bandwidth, mmd2
from bellman_diffusion.metrics.privacy import closest_record_share, membership_auc
from bellman_diffusion.metrics.wasserstein import sliced_wasserstein, wasserstein_1, wasserstein_2

__all__ = [
    "closest_record_share",
    "frechet_distance",
    "median_bandwidth",
    "membership_auc",
    "mmd2",
    "sliced_wasserstein",
    "wasserstein_1",
    "wasserstein_2",
]
