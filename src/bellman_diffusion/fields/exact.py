"""The exact minimisers of the matching losses for a known density and a known ρ."""

from collections.abc import Callable

import jax

from bellman_diffusion.fields.base import AbstractField, Point, PointFields, Scalar


class KernelField(AbstractField):
    """s* = ρ and g* = ½(∇ρ + ρ∇log p): what an unlimited network would learn.

    With `rho` equal to the density this is the paper's pair s = p, g = ∇p.
    """

    log_density: Callable[[Point], Scalar]
    rho: Callable[[Point], Scalar]

    def scalar_and_gradient(self, x: Point) -> PointFields:
        """The two minimisers at x."""
        rho, grad_rho = jax.value_and_grad(self.rho)(x)
        return rho, 0.5 * (grad_rho + rho * jax.grad(self.log_density)(x))
