"""Plans that are learned from transitions: of a table, or of episodes."""

import warnings
from dataclasses import replace

import jax.numpy as jnp
import msgspec

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.evaluation import evaluate_against_returns, reference_returns
from bellman_diffusion.planning.job import N_BASIS, Job, Shape, state_encoder
from bellman_diffusion.planning.learning import (
    NEGLIGIBLE_OVERFLOW,
    LearnSettings,
    find_support,
    learn,
    overflow,
)
from bellman_diffusion.planning.planner import (
    PlanFigures,
    Planner,
    sigma_in_nodes,
    start_observations,
    state_distribution,
)
from bellman_diffusion.planning.policies import (
    PolicyFunction,
    load_policy,
    tabular_policy,
    with_random,
)
from bellman_diffusion.planning.transitions import Transitions, collect, known_returns, sample_chain
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.mdp import FiniteMDP
from bellman_diffusion.returns.models import LearnedReturns
from bellman_diffusion.returns.observations import ObservationEncoder, timed_space


def plan_from_table(job: Job, mdp: FiniteMDP) -> Planner:
    """From transitions that are drawn from the table, evaluated against the exact distributions."""
    s = job.settings
    chain = mdp.under(tabular_policy(s.policy, mdp, job.env, s.gamma, s.epsilon))
    assert s.samples is not None
    transitions = sample_chain(chain, s.samples, s.seed)
    returns, shape, figures = _learn(job, transitions, state_encoder(mdp.n_states))
    return job.compare(returns, shape, figures, mdp, chain, reference_returns(chain, s.gamma))


def plan_from_episodes(job: Job, policy: PolicyFunction | None) -> Planner:
    """From episodes of an environment, evaluated against the returns of other episodes."""
    s, env = job.settings, job.env
    if env is None:
        raise InvalidInputError(f"{s.env_id} is a model: its policy is a name or a .npy table")
    if s.samples is None:
        raise InvalidInputError("a policy given as a function needs samples: how many transitions?")
    if policy is None:
        act = load_policy(s.policy, env, s.seed, s.epsilon)
    else:
        act = with_random(policy, env, s.seed, s.epsilon)
    limit, space = job.horizon, env.observation_space
    encoder = ObservationEncoder.for_space(space if limit is None else timed_space(space), s.env_id)
    transitions = collect(env, act, s.samples, s.seed, limit)
    # Other episodes than those learned from; a quarter as many transitions.
    others = collect(env, act, max(s.samples // 4, 1), s.seed + 1_000_003, limit)
    held_out = known_returns(others, s.gamma)
    returns, basis, figures = _learn(job, transitions, encoder)
    if len(held_out.value):
        predicted = state_distribution(returns, jnp.asarray(held_out.observation))
        evaluation = evaluate_against_returns(predicted, held_out)
        figures = msgspec.structs.replace(figures, held_out=evaluation)
    else:
        warnings.warn(
            "no held-out episode ended, so nothing evaluates the return distributions: use more "
            "--samples, or gamma < 1",
            RuntimeWarning,
            stacklevel=3,
        )
    starts = start_observations(env, None, s.seed)
    return job.planner(returns, basis, figures, encoder, starts)


def _learn(
    job: Job, transitions: Transitions, encoder: ObservationEncoder
) -> tuple[LearnedReturns, Shape, PlanFigures]:
    s = job.settings
    n_basis = s.n_basis or N_BASIS
    how = LearnSettings(gamma=s.gamma, mode=s.mode, n_basis=n_basis, max_iter=s.max_iter)
    support = s.support or find_support(transitions, encoder, how, s.seed, job.report)
    shape = Shape(support, n_basis, GaussianBasis.on_interval(*support, n_basis, s.sigma).sigma)
    how = replace(how, sigma=sigma_in_nodes(shape.sigma, n_basis, support))
    learned = learn(transitions, encoder, support, how, s.seed, run=job.run, progress=job.progress)
    below, above = (float(v) for v in overflow(learned.returns, transitions, s.gamma, s.seed))
    if max(below, above) > NEGLIGIBLE_OVERFLOW:
        side = "below" if below > above else "above"
        warnings.warn(
            f"the support [{support[0]:.4g}, {support[1]:.4g}] cuts off returns {side} it: mean "
            f"returns are off by about {max(below, above):.1%} of its width. Widen --support.",
            RuntimeWarning,
            stacklevel=4,
        )
    figures = PlanFigures(loss=learned.loss, n_transitions=len(transitions))
    return learned.returns, shape, figures
