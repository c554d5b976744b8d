"""Log-densities: from s where s is a density, from the probability flow where σ is known."""

from bellman_diffusion.density.probability_flow import log_density_by_flow

__all__ = ["log_density_by_flow"]
