"""Returns of several components, learned from transitions as one joint distribution."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.header import Correlation, PlanFigures
from bellman_diffusion.planning.job import Job, PlanSettings, Shape
from bellman_diffusion.planning.learning import Learned, LearnSettings, learn
from bellman_diffusion.planning.planned_returns import AlongReturns, joint_distribution
from bellman_diffusion.planning.return_range import range_of_returns
from bellman_diffusion.planning.transitions import Discount, Returns, Transitions
from bellman_diffusion.returns.models import LearnedReturns
from bellman_diffusion.returns.models.particles import Particles
from bellman_diffusion.returns.observations import ObservationEncoder

# Rows of a batch: pairs of particles are many.
_BATCH_SIZE = 256
# Distances are in shares of the ranges, which therefore must not be much too wide.
_MOST_UNKNOWN = 0.5


def plan_vector_returns(
    job: Job, transitions: Transitions, encoder: ObservationEncoder
) -> tuple[LearnedReturns, Shape, PlanFigures]:
    """The joint distribution of several components."""
    s, discounts = job.settings, job.discount
    if s.support is not None or s.sigma is not None:
        raise InvalidInputError(
            "--support and --sigma are for rewards that are numbers: the ranges of vector returns are "
            "found"
        )
    learned, supports = learn_vector_returns(
        transitions, encoder, discounts, s.seed,
        max_iter=s.max_iter, trace=s.trace, n_particles=s.n_basis,
        run=job.run, progress=job.progress,
    )  # fmt: skip
    low, high = supports[0]
    n_basis = s.n_basis or LearnSettings.n_basis
    shape = Shape((low, high), n_basis, Particles.sigma * (high - low), supports)
    return learned.returns, shape, PlanFigures(n_transitions=len(transitions), loss=learned.loss)


def learn_vector_returns(
    transitions: Transitions,
    encoder: ObservationEncoder,
    discounts: Discount,
    seed: int,
    *,
    max_iter: int = PlanSettings.max_iter,
    trace: float = PlanSettings.trace,
    n_particles: int | None = None,
    **watch: Any,
) -> tuple[Learned, tuple[tuple[float, float], ...]]:
    """Particles, over the range of each component's returns."""
    dim = transitions.reward.shape[1]
    each = np.broadcast_to(discounts, (dim,)).astype(float)
    supports = tuple(
        range_of_returns(transitions.component(d), float(each[d]), most_unknown=_MOST_UNKNOWN)
        for d in range(dim)
    )
    how = LearnSettings(
        gamma=each,
        max_iter=max_iter,
        trace=trace,
        n_basis=n_particles or LearnSettings.n_basis,
        n_components=dim,
        batch_size=_BATCH_SIZE,
    )
    low, high = np.array(supports, np.float32).T
    return learn(transitions, encoder, (low, high), how, seed, **watch), supports


def evaluate_components(
    returns: LearnedReturns,
    held_out: Returns,
    evaluate: Callable[[AlongReturns, Returns], dict[str, Any]],
) -> dict[str, Any]:
    """Each component by itself, and the correlation between them."""
    parts = []
    for d, weights in enumerate(np.eye(held_out.value.shape[1])):
        found = evaluate(AlongReturns.of(returns, weights), held_out.component(d))
        parts.append(PlanFigures(**found))
    first = held_out.of_starts()
    correlation = None
    if len(first.value) > 1 and not first.n_lost:
        joint = joint_distribution(returns, jnp.asarray(first.observation)).mixture()
        with np.errstate(invalid="ignore"):
            seen = np.nan_to_num(np.corrcoef(first.value.T))
        predicted = np.asarray(joint.correlation(), float)
        correlation = Correlation(predicted=predicted.tolist(), monte_carlo=seen.tolist())
    return {"components": parts, "correlation": correlation}
