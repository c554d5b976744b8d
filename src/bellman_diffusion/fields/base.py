"""What every field gives, written for one point; callers `vmap`."""

from abc import abstractmethod

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key

RandomKey = Key[Array, ""]
Scalar = Float[Array, ""]
Point = Float[Array, " dim"]
PointFields = tuple[Scalar, Point]
"""s and g at one point."""


class AbstractField(eqx.Module):
    """A scalar field s ≥ 0 and a gradient field g on R^D."""

    @abstractmethod
    def scalar_and_gradient(self, x: Point) -> PointFields:
        """Both fields at one point, sharing what computation they can."""

    def scalar(self, x: Point) -> Scalar:
        """The scalar field s(x). It is a density only where the kernel was isotropic."""
        return self.scalar_and_gradient(x)[0]

    def gradient(self, x: Point) -> Point:
        """The gradient field g(x)."""
        return self.scalar_and_gradient(x)[1]

    def score(self, x: Point) -> Point:
        """∇log p(x) = (2g − ∇s)/s, which holds for every kernel.

        For s* = ρ and g* = ½(∇ρ + ρ∇log p) the kernel's ρ drops out.
        """
        return self.fields_and_score(x)[2]

    def fields_and_score(self, x: Point) -> tuple[Scalar, Point, Point]:
        """s, g and the score from one evaluation."""
        (s, g), grad_s = jax.value_and_grad(self.scalar_and_gradient, has_aux=True)(x)
        return s, g, (2 * g - grad_s) / s


class AbstractNoiseField(eqx.Module):
    """Fields of p_σ, the data density smoothed by N(0, σ²I), for every σ in a range."""

    sigma_min: eqx.AbstractVar[float]
    sigma_max: eqx.AbstractVar[float]

    @abstractmethod
    def at(self, sigma: Scalar | float) -> AbstractField:
        """The fields at one noise level."""


AnyField = AbstractField | AbstractNoiseField


def at_noise(field: AnyField, sigma: Scalar | float) -> AbstractField:
    """The field at noise level σ; a field without a noise level is the same at each."""
    return field.at(sigma) if isinstance(field, AbstractNoiseField) else field
