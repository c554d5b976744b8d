"""The range of returns that a model covers: seen, counted, or found by short trainings."""

import warnings
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.certify import certify
from bellman_diffusion.planning.counting import Counted
from bellman_diffusion.planning.learning import LearnSettings, learn
from bellman_diffusion.planning.transitions import Transitions, partial_returns
from bellman_diffusion.returns.observations import ObservationEncoder

# What was seen of a return tells its size where at most this share of it was not.
_MOST_UNKNOWN = 0.9
# Enough cells to find the range of a counted chain's returns.
_COARSE = 34
# Short trainings that find the range of returns where there are no episodes: how many at most, their
# steps, the rows and quantiles that are looked at, and what makes another one worth while.
_MOST_PILOTS, _PILOT_STEPS, _PILOT_ROWS = 4, 1000, 2000
_PILOT_LEVELS, _PILOT_MARGIN, _WORTHWHILE = (1e-3, 1 - 1e-3), 0.1, 0.7


def find_range(
    transitions: Transitions,
    encoder: ObservationEncoder,
    gamma: float,
    episodes: Transitions | None = None,
    margin: float = 0.05,
) -> tuple[float, float]:
    """Of returns: of a table those of the counted chain, else those of the episodes."""
    if not encoder.n_discrete:
        return range_of_returns(transitions if episodes is None else episodes, gamma, margin)
    chain = Counted.of(transitions, encoder.n_discrete).chain
    low, high = certify(chain, gamma, n_cells=_COARSE).range
    return (low, high) if high > low else (low - 1.0, high + 1.0)


def range_of_returns(
    transitions: Transitions,
    gamma: float,
    margin: float = 0.05,
    most_unknown: float = _MOST_UNKNOWN,
) -> tuple[float, float]:
    """Of the returns seen, with a margin and what may come after a truncation.

    Where rows are not episodes, or episodes are cut off early, what the rewards seen allow.
    """
    value, unknown = partial_returns(transitions, gamma)
    known = unknown <= most_unknown
    reward = transitions.reward
    # No return lies beyond what the rewards allow.
    longest = np.inf if gamma == 1 else 1 / (1 - gamma)
    least = float(reward.min()) * longest if reward.min() < 0 else 0.0
    greatest = float(reward.max()) * longest if reward.max() > 0 else 0.0
    if not transitions.has_episodes or not known.any():
        if gamma == 1:
            raise InvalidInputError(
                "no episode ends in the transitions and gamma is 1, so returns have no bound: give "
                "--support LOW HIGH, or gamma below 1"
            )
        low, high = least, greatest
    else:
        # What was not seen may be nothing, or go on as before: x = seen + unknown · x.
        on = value[known] / (1 - unknown[known])
        low, high = (float(f([f(value), f(on)])) for f in (np.min, np.max))
        room = margin * (high - low)
        low, high = max(low - room, least), min(high + room, greatest)
    return (low, high) if high > low else (low - 1.0, high + 1.0)


def warn_of_cuts(support: tuple[float, float], seen: tuple[float, float]) -> None:
    """A support of the user's that leaves out returns that were seen."""
    room = 0.06 * (seen[1] - seen[0])
    below, above = seen[0] + room < support[0], seen[1] - room > support[1]
    if below or above:
        warnings.warn(
            f"the support [{support[0]:.4g}, {support[1]:.4g}] cuts off returns "
            f"{'below' if below else 'above'} it: they range over [{seen[0]:.4g}, {seen[1]:.4g}]. "
            "Widen --support.",
            RuntimeWarning,
            stacklevel=5,
        )


def narrowed(
    transitions: Transitions,
    encoder: ObservationEncoder,
    support: tuple[float, float],
    how: LearnSettings,
    seed: int,
) -> tuple[float, float]:
    """The part of a range that short trainings find returns in.

    Single steps tell the range of returns by their rewards alone, and that is often a hundred times too
    wide.
    """
    short = replace(how, mode="c51", max_iter=_PILOT_STEPS)
    rows = jnp.asarray(transitions.observation[:_PILOT_ROWS])
    for _ in range(_MOST_PILOTS):
        pilot = learn(transitions, encoder, support, short, seed)
        ends = pilot.returns.distribution(rows)[:, 0].quantile(jnp.asarray(_PILOT_LEVELS))
        width = support[1] - support[0]
        room = _PILOT_MARGIN * float(ends.max() - ends.min())
        low = max(float(ends.min()) - room, support[0])
        high = min(float(ends.max()) + room, support[1])
        if not 0 < high - low < _WORTHWHILE * width:
            break
        support = low, high
    return support
