"""Every choice that makes a generative model, as one frozen value, and the presets.

`paper` is Algorithms 1 and 2 with the right constants. `default` is what worked best: denoising field
matching, fields conditioned on the noise level, annealed dynamics. The paper leaves open the widths,
the batch, the learning rate and the distribution of the slices; those of the `paper` preset are ours.

Settings are declared here, and checked here: a `Recipe` that exists is one that can be run.
"""

import math
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.fields import FourierFeatures
from bellman_diffusion.matching import SliceDistribution

Preset = Literal["default", "paper"]


@dataclass(frozen=True)
class Recipe:
    """What is learned, how it is learned, how samples are drawn. All in standardised units."""

    field: Literal["noise-conditional", "pair", "conservative"] = "noise-conditional"
    """Which fields: conditioned on σ, the paper's two networks, or g = ∇s."""
    width: int = 128
    """Units in each hidden layer."""
    depth: int = 3
    """Hidden layers."""
    n_frequencies: int = 16
    """Fourier features of x, or of each coordinate of it (noise-conditional fields only)."""
    fourier_features: FourierFeatures = "random"
    """Along random directions, or along the axes, for data on a grid."""

    objective: Literal["denoising", "sliced-trace", "exact-trace"] = "denoising"
    """Denoising regression, or the paper's losses with a sliced or an exact trace."""
    kernel: Literal["sliced", "isotropic"] = "sliced"
    """A Gaussian of a random projection, or of all coordinates."""
    slice_distribution: SliceDistribution = "sphere"
    """Of the directions v and w."""
    unit_slices: bool = True
    """Scale w to length 1, so that epsilon means the same in every dimension."""
    epsilon: float = 1.0
    """The kernel's variance."""
    kernel_growth: float = 4.0
    """How the kernel widens with the noise: variance epsilon + kernel_growth · σ²."""
    pairs: Literal["all", "matched"] = "all"
    """Each point with all second points of the batch, or with one."""
    n_slices: int = 1
    """Draws of the kernel's and the trace's directions (v, w) per step."""
    jitter: float = 0.0
    """Noise on the points of the paper's losses, which bounds them from below; 0 is as written."""
    sigma_min: float = 0.01
    """The smallest noise level (denoising only)."""
    sigma_max: float = 3.0
    """The largest noise level (denoising only)."""
    group_size: int = 128
    """Clean points that a noisy one may come from, in the noise's posterior mean: of a part of the
    batch, of all of it, or of more rows than these; 1 is plain denoising."""

    max_iter: int = 4000
    """Training steps."""
    batch_size: int = 256
    """Points a step."""
    n_references: int = 128
    """Second points a step, where each point is paired with all."""
    learning_rate: float = 5e-3
    """Adam's largest rate."""
    constant_rate: bool = False
    """Keep the rate; otherwise warm up and fall to zero along a cosine."""
    ema_decay: float = 0.998
    """Decay of the running average of the weights that is used in the end; 0 for none."""

    dynamics: Literal["annealed", "euler", "metropolis", "langevin"] = "annealed"
    """The sampler."""
    n_steps: int = 60
    """Steps of the sampler: the paper's T; for annealed dynamics the number of noise levels."""
    step_size: float = 0.1
    """The paper's η; for annealed dynamics the factor in η_σ = step_size · σ²/s̄_σ."""
    n_corrections: int = 1
    """Steps of dx = g dt + √s dw at each noise level (annealed only)."""

    def __post_init__(self) -> None:
        """Check every setting, and settings against each other."""
        for f in fields(self):
            object.__setattr__(self, f.name, _checked(f.name, getattr(self, f.name)))
        _check_consistent(self)

    def training_config(self) -> dict[str, Any]:
        """What training depends on, as a plain dictionary."""
        return {k: v for k, v in asdict(self).items() if k not in SAMPLER_SETTINGS}


SAMPLER_SETTINGS = ("dynamics", "n_steps", "step_size", "n_corrections")

# Numbers that may be 0; all others must be above it.
_ZERO_ALLOWED = {"n_frequencies", "ema_decay", "kernel_growth", "n_corrections", "jitter"}


def _checked(name: str, value: Any) -> Any:
    hint = _hints()[name]
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise InvalidInputError(f"{name} must be one of {get_args(hint)}, not {value!r}")
        return value
    if hint is bool:
        if not isinstance(value, bool | np.bool_):
            raise InvalidInputError(f"{name} must be True or False, not {value!r}")
        return bool(value)
    try:
        number = hint(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name} must be a number, not {value!r}") from error
    low_enough = number >= 0 if name in _ZERO_ALLOWED else number > 0
    if not low_enough or number != value or not math.isfinite(number):
        least = "at least 0" if name in _ZERO_ALLOWED else "above 0"
        kind = "a whole number" if hint is int else "a number"
        raise InvalidInputError(f"{name} must be {kind} {least}, not {value!r}")
    return number


def _check_consistent(recipe: Recipe) -> None:
    noisy = recipe.field == "noise-conditional"
    if (recipe.dynamics == "annealed") != noisy:
        raise InvalidInputError(
            f"dynamics={recipe.dynamics!r} does not go with field={recipe.field!r}: annealed "
            "dynamics and noise-conditional fields need each other"
        )
    if noisy and recipe.objective != "denoising":
        raise InvalidInputError(
            "noise-conditional fields are learned by denoising: set objective='denoising', or "
            "choose field='pair' or 'conservative'"
        )
    if not noisy and recipe.objective == "denoising" and recipe.sigma_min != recipe.sigma_max:
        raise InvalidInputError(
            f"field={recipe.field!r} does not know the noise level, so denoising needs one level: set "
            "sigma_min and sigma_max to the same value, or use the 'default' preset"
        )
    if recipe.sigma_min > recipe.sigma_max:
        raise InvalidInputError(
            f"sigma_min={recipe.sigma_min} is above sigma_max={recipe.sigma_max}"
        )
    if recipe.ema_decay >= 1:
        raise InvalidInputError(f"ema_decay must be below 1, not {recipe.ema_decay}")


@lru_cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Recipe)


PRESETS: dict[Preset, Recipe] = {
    "default": Recipe(),
    "paper": Recipe(
        field="pair",
        objective="sliced-trace",
        slice_distribution="rademacher",
        unit_slices=False,
        epsilon=0.1,
        pairs="matched",
        max_iter=6000,
        learning_rate=1e-3,
        constant_rate=True,
        ema_decay=0.0,
        dynamics="euler",
        n_steps=300,
        step_size=0.1,
    ),
}


def make_recipe(preset: Any = "default", **changes: Any) -> Recipe:
    """A preset or a recipe with some settings changed; `None` keeps a value."""
    if isinstance(preset, str) and preset in PRESETS:
        preset = PRESETS[preset]
    if not isinstance(preset, Recipe):
        raise InvalidInputError(
            f"unknown preset {preset!r}; choose {', '.join(map(repr, PRESETS))}, or give a Recipe"
        )
    unknown = [name for name in changes if name not in Recipe.__dataclass_fields__]
    if unknown:
        raise InvalidInputError(
            f"there is no setting {unknown[0]!r}; there are {', '.join(Recipe.__dataclass_fields__)}"
        )
    given = {name: value for name, value in changes.items() if value is not None}
    return replace(preset, **{name: _checked(name, value) for name, value in given.items()})
