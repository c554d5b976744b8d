"""What an action is chosen by: a figure of its return's law."""

import math
from typing import Literal, NamedTuple

from jaxtyping import Array, Float

from bellman_diffusion.bellman.distribution import ReturnDistribution
from bellman_diffusion.errors import InvalidInputError

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

    def value(self, law: ReturnDistribution) -> Float[Array, "..."]:
        """The figure of each law of a batch; more is better."""
        if self.kind == "cvar":
            return law.cvar(self.level)
        if self.kind == "quantile":
            return law.quantile(self.level)
        if self.kind == "above":
            return 1 - law.prob_below(self.level)
        return law.mean()
