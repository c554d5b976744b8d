"""The exact minimisers of the matching losses for a known density and a known ρ."""

from collections.abc import Callable

import jax
from jaxtyping import Array, Float

from bellman_diffusion.fields.base import AbstractField


class KernelField(AbstractField):
    """s* = ρ and g* = ½(∇ρ + ρ∇log p): what an unlimited network would learn.

    With `rho` equal to the density this is the paper's pair s = p, g = ∇p.
    """

    log_density: Callable[[Float[Array, " dim"]], Float[Array, ""]]
    rho: Callable[[Float[Array, " dim"]], Float[Array, ""]]

    def scalar_and_gradient(
        self, x: Float[Array, " dim"]
    ) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
        """The two minimisers at x."""
        rho, grad_rho = jax.value_and_grad(self.rho)(x)
        return rho, 0.5 * (grad_rho + rho * jax.grad(self.log_density)(x))
