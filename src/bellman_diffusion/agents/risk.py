"""What an action is chosen by: a risk figure of its return distribution."""

import math
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.distribution import ReturnDistribution

Kind = Literal["mean", "cvar", "quantile", "above"]
_HELP = "use mean, cvar:ALPHA, quantile:Q or above:RETURN, as in cvar:0.1"


class Risk(NamedTuple):
    """mean; cvar: the mean of the worst share; quantile; above: P(return ≥ level)."""

    kind: Kind = "mean"
    level: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Risk":
        """From `mean`, `cvar:0.1`, `quantile:0.25` or `above:10`."""
        kind, colon, number = text.partition(":")
        if kind == "mean" and not colon:
            return cls()
        try:
            level = float(number)
        except ValueError:
            raise InvalidInputError(f"risk {text!r}: {_HELP}") from None
        if kind == "cvar" and 0 < level <= 1:
            return cls("cvar", level)
        if kind == "quantile" and 0 < level < 1:
            return cls("quantile", level)
        if kind == "above" and math.isfinite(level):
            return cls("above", level)
        raise InvalidInputError(f"risk {text!r}: {_HELP}")

    def value(self, distribution: ReturnDistribution) -> Float[Array, "..."]:
        """The figure of each distribution of a batch; more is better."""
        if isinstance(distribution, AtomicReturn):
            return self._of_atoms(distribution.mass, distribution.atoms)
        if self.kind == "cvar":
            return distribution.cvar(self.level)
        if self.kind == "quantile":
            return distribution.quantile(self.level)
        if self.kind == "above":
            return 1 - distribution.prob_below(self.level)
        return distribution.mean()

    def _of_atoms(
        self, mass: Float[Array, "*n k"], at: Float[Array, "*#n k"]
    ) -> Float[Array, "*n"]:
        """The same of weights at rising returns: no search for a quantile, a hundredth of the time."""
        if self.kind == "mean":
            return jnp.sum(mass * at, axis=-1)
        if self.kind == "above":
            return jnp.sum(mass * (at >= self.level), axis=-1)
        before = jnp.cumsum(mass, axis=-1) - mass
        if self.kind == "cvar":
            worst = jnp.clip(self.level - before, 0.0, mass)
            return jnp.sum(worst * at, axis=-1) / self.level
        # The first return up to which there is enough mass.
        at = jnp.broadcast_to(at, mass.shape)
        return jnp.min(jnp.where(before + mass >= self.level, at, jnp.inf), axis=-1)
