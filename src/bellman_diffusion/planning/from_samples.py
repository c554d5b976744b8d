"""Plans that are learned from transitions: of a table, of episodes, or of a log."""

import math
import warnings
from dataclasses import replace
from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import msgspec
import numpy as np
from gymnasium.spaces.utils import unflatten
from jaxtyping import Bool

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.acting import GIVEN_POLICY, ActingPolicy, PolicyFunction, acting
from bellman_diffusion.planning.certify import certify
from bellman_diffusion.planning.conformal import calibrate
from bellman_diffusion.planning.counting import Counted, CountedReturns
from bellman_diffusion.planning.evaluation import evaluate_against_returns, reference_returns
from bellman_diffusion.planning.header import LOGGED_POLICY, ActionHeader, PlanFigures
from bellman_diffusion.planning.job import Job, PlanSettings, Shape, state_encoder
from bellman_diffusion.planning.learning import LearnSettings, learn
from bellman_diffusion.planning.logs import Log
from bellman_diffusion.planning.monte_carlo import MonteCarlo
from bellman_diffusion.planning.off_policy import OffPolicy, Target
from bellman_diffusion.planning.planned_returns import PlannedReturns, state_distribution
from bellman_diffusion.planning.planner import (
    Planner,
    plain_observation,
    sigma_in_nodes,
    start_observations,
)
from bellman_diffusion.planning.policies import tabular_policy
from bellman_diffusion.planning.return_range import find_range, narrowed, warn_of_cuts
from bellman_diffusion.planning.sampling import Report, Sampler
from bellman_diffusion.planning.transitions import (
    NEGLIGIBLE,
    Returns,
    Transitions,
    known_returns,
    sample_chain,
)
from bellman_diffusion.planning.vector_returns import evaluate_components, plan_vector_returns
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.mdp import FiniteMDP
from bellman_diffusion.returns.models import LearnedReturns
from bellman_diffusion.returns.observations import (
    LARGEST_PLANNED_IMAGE,
    ObservationEncoder,
    finite_shape,
    from_index,
    timed_space,
    to_row,
)

# Held-out episodes have this share of the transitions, but at least so many episodes.
_HELD_OUT, _LEAST_EPISODES = 0.25, 40
_LONGEST = 5000
# Of the episodes of a log, so many are held out.
_LOG_HELD_OUT = 0.2
# For an evaluation by groups of states.
_FEWEST_RETURNS = 8
_SHOWN_STARTS = 3
# Room for the returns of another policy than the one logged, as a share of the range of those.
_OFF_POLICY_MARGIN = 0.5
# Steps that the target network averages over off-policy. With 50, Pendulum's mean is a third off after
# 4,000 steps, because 80 updates discount what is not yet known by 0.99⁸⁰ alone.
_OFF_POLICY_MEMORY = 5.0
# More of a policy's pairs than this far from all logged ones are worth a warning.
_MOST_OUTSIDE = 0.05
# Starts that are kept with the planner.
_N_STARTS = 256
_START_NUMBERS = 200_000


def plan_from_table(job: Job, mdp: FiniteMDP) -> Planner:
    """From transitions that are drawn from the table, evaluated against the exact distributions."""
    s = job.settings
    chain = mdp.under(tabular_policy(s.policy, mdp, job.env, s.gamma, s.epsilon))
    assert s.samples is not None
    transitions = sample_chain(chain, s.samples, s.seed)
    returns, shape, figures = _learn(job, transitions, state_encoder(mdp.n_states))
    return job.compare(returns, shape, figures, mdp, chain, reference_returns(chain, s.gamma))


def plan_from_episodes(job: Job, policy: PolicyFunction | ActingPolicy | None) -> Planner:
    """From episodes of an environment, evaluated against the returns of other episodes."""
    s, env = job.settings, job.env
    if env is None:
        raise InvalidInputError(f"{s.env_id} is a model: its policy is a name or a .npy table")
    if s.samples is None:
        raise InvalidInputError("a policy given as a function needs samples: how many transitions?")
    if not isinstance(policy, ActingPolicy):
        policy = acting(
            policy or s.policy, env, s.seed, s.epsilon,
            stochastic=s.stochastic, normalize=s.normalize,
        )  # fmt: skip
    # Counted states need not be told the time: the horizon is known when the chain is solved.
    counted = _is_counted(job, env.observation_space)
    limit = None if counted else job.horizon
    space = env.observation_space if limit is None else timed_space(env.observation_space)
    encoder = ObservationEncoder.for_space(space, s.env_id, LARGEST_PLANNED_IMAGE)
    _check_memory(s, encoder)
    if job.discounts is not None and s.mode != "default":
        raise InvalidInputError(
            f"--mode {s.mode} is for rewards that are numbers: leave it out for vector returns"
        )
    sampler = Sampler(job.make, policy, limit)
    transitions = sampler.transitions(s.samples, s.seed, _report(job, "transitions"))
    returns, shape, figures = _learn(job, transitions, encoder)
    held_out = _held_out(job, sampler._replace(make=_played_on(job)), transitions)
    figures = msgspec.structs.replace(figures, **_evaluated(returns, held_out))
    starts = start_observations(env, None, s.seed)
    rows = np.stack([to_row(env.observation_space, o) for o in starts])
    starts = [o for o, known in zip(starts, _occurs(returns, rows), strict=True) if known]
    n_states = encoder.n_discrete if counted else None
    planner = job.planner(returns, shape, figures, encoder, starts, n_states)
    first = held_out.of_starts().observation
    first = first[_occurs(returns, first)][: _n_starts(encoder)]
    planner.header = msgspec.structs.replace(
        planner.header, start_rows=[plain_observation(row) for row in first]
    )
    return planner


def plan_from_log(job: Job, log: Log) -> Planner:
    """On-policy evaluation of what was logged: no environment is made."""
    s = job.settings
    encoder = ObservationEncoder.for_space(log.space, s.env_id, LARGEST_PLANNED_IMAGE)
    transitions, others = log.split(_LOG_HELD_OUT, s.seed)
    if not len(transitions):
        raise InvalidInputError(f"{s.env_id} has a single episode: nothing is left to learn from")
    returns, shape, figures = _learn(job, transitions, encoder)
    held_out = known_returns(others, s.gamma) if len(others) else None
    figures = msgspec.structs.replace(figures, **_evaluated(returns, held_out))
    n_states = encoder.n_discrete if s.mode == "default" and encoder.n_discrete else None
    every = log.transitions
    first = every.observation[np.concatenate([[True], every.ended[:-1] > 0])]
    first = first[_occurs(returns, first)]
    starts = [plain_observation(_observed(log.space, row)) for row in first[:_SHOWN_STARTS]]
    planner = job.planner(returns, shape, figures, encoder, starts, n_states)
    planner.header = msgspec.structs.replace(
        planner.header,
        from_log=True,
        policy=LOGGED_POLICY,
        start_rows=[plain_observation(row) for row in first[: _n_starts(encoder)]],
    )
    return planner


def plan_off_policy(job: Job, log: Log, policy: PolicyFunction | None) -> Planner:
    """Off-policy evaluation: the return of pairs (observation, action) under another policy."""
    s = job.settings
    target = Target(policy or s.policy, s.seed, s.epsilon, s.stochastic, s.normalize)
    found = OffPolicy.of(log, target)
    if found.outside > _MOST_OUTSIDE:
        warnings.warn(
            f"the policy leaves the log: {found.outside:.0%} of its actions are more than twice as far "
            "from every logged pair of observation and action as 99 % of logged pairs are from their "
            "nearest, so the return is extrapolated. Use a log of more varied actions",
            RuntimeWarning,
            stacklevel=4,
        )
    encoder = ObservationEncoder.for_space(found.space, s.env_id)
    # The log's own returns tell the range, those of the policy may lie a little outside.
    returns, shape, figures = _learn(
        job, found.transitions, encoder, log.transitions, _OFF_POLICY_MARGIN
    )
    figures = msgspec.structs.replace(figures, outside_log=found.outside)
    is_counted = _is_counted(job, found.space)
    first = found.starts[_occurs(returns, found.starts)]
    if not len(first):
        raise InvalidInputError(
            f"{s.env_id}: no logged episode starts with an action of the policy: nothing is known of "
            "its return"
        )
    starts = [_plain_pair(found.space, row) for row in first[:_SHOWN_STARTS]]
    n_states = encoder.n_discrete if is_counted else None
    planner = job.planner(returns, shape, figures, encoder, starts, n_states)
    planner.header = msgspec.structs.replace(
        planner.header,
        from_log=True,
        policy=s.policy if policy is None else GIVEN_POLICY,
        actions=ActionHeader.of(log.space, log.action_space or log.space),
        start_rows=[plain_observation(row) for row in first[:_N_STARTS]],
    )
    return planner


def _check_memory(s: PlanSettings, encoder: ObservationEncoder) -> None:
    """Observations and next observations are held in memory."""
    size = math.prod(encoder.shape) * (1 if encoder.bytes else 4)
    needed = 2 * (s.samples or 0) * size / 1e9
    if needed > s.memory_gb:
        raise InvalidInputError(
            f"{s.samples:,} transitions with observations of {encoder.shape} take {needed:.1f} GB, "
            f"more than --memory {s.memory_gb:g}: use fewer --samples, or smaller observations "
            "(gymnasium.wrappers.ResizeObservation, GrayscaleObservation)"
        )


def _n_starts(encoder: ObservationEncoder) -> int:
    """Of images a few, as a planner's header is text."""
    return int(np.clip(_START_NUMBERS // math.prod(encoder.shape), _SHOWN_STARTS, _N_STARTS))


def _plain_pair(space: gym.Space, row: np.ndarray) -> Any:
    """A stored pair as JSON has it."""
    if finite_shape(space) is not None:
        return plain_observation(from_index(space, int(row[0])))
    return plain_observation(unflatten(space, row))


def _observed(space: gym.Space, row: np.ndarray) -> Any:
    """A stored row as an observation of the log's space, as far as it has a plain form."""
    return int(row[0]) if isinstance(space, gym.spaces.Discrete) else row


def _is_counted(job: Job, space: gym.Space) -> bool:
    is_vector = job.env is not None and job.discounts is not None
    return job.settings.mode == "default" and finite_shape(space) is not None and not is_vector


def _report(job: Job, what: str) -> Report:
    """Progress of sampling, now and then a line."""
    said = [0]

    def report(done: int, total: int) -> None:
        tenth = 10 * done // total
        if job.report is not None and tenth > said[0]:
            said[0] = tenth
            job.report(f"sampling: {done:,} of {total:,} {what}")

    return report


def _played_on(job: Job) -> Any:
    """The environment for held-out episodes.

    A time limit that truncates is no end of the return: episodes are played on until what is left is
    discounted to nothing.
    """
    gamma, limit = float(np.max(job.discount)), job.time_limit
    if job.horizon is not None or gamma == 1:
        needed = limit or _LONGEST
    else:
        enough = int(np.ceil(np.log(NEGLIGIBLE) / np.log(gamma)))
        # As long for a state at the limit as for one at the start.
        needed = (limit or 0) + min(enough, _LONGEST)
    return job.make if needed == limit else lambda: job.make_with_limit(needed)


def _held_out(job: Job, sampler: Sampler, transitions: Transitions) -> Returns:
    """Returns of other episodes than those learned from; how many is fixed before they are played."""
    n = len(transitions)
    length = n / max(float(np.sum(transitions.ended)), 1.0)
    n_episodes = max(int(_HELD_OUT * n / length), min(_LEAST_EPISODES, 4 * n // 100))
    seed = job.settings.seed + 1_000_003
    found = sampler.episodes(max(n_episodes, 1), seed, _report(job, "held-out episodes"))
    horizon = job.horizon if sampler.limit is None else None
    return known_returns(found, job.discount, horizon, job.time_limit)


def _evaluated(returns: PlannedReturns, held_out: Returns | None) -> dict[str, Any]:
    """Figures against held-out returns: accuracy, plain Monte Carlo, conformal intervals."""
    if held_out is None or len(held_out.value) < _FEWEST_RETURNS:
        warnings.warn(
            "no held-out episode ended, so nothing evaluates the return distributions: use more "
            "--samples, or gamma < 1",
            RuntimeWarning,
            stacklevel=4,
        )
        return {}
    if held_out.value.ndim == 2:
        assert isinstance(returns, LearnedReturns)
        return evaluate_components(returns, held_out, _evaluated)
    if isinstance(returns, CountedReturns):
        held_out = held_out.chosen(_occurs(returns, held_out.observation))
    predicted = state_distribution(returns, jnp.asarray(held_out.observation))
    found: dict[str, Any] = {"held_out": evaluate_against_returns(predicted, held_out)}
    first = held_out.of_starts()
    if first.n_lost:
        warnings.warn(
            f"the return of {first.n_lost} held-out episodes is not known (they were cut off, or start "
            "where no other one was): those that are known may not be like them, so there is no Monte-"
            "Carlo estimate and no calibrated interval. Use more data, --time-limit end, or a lower "
            "gamma",
            RuntimeWarning,
            stacklevel=4,
        )
    elif len(first.value) > 1:
        starts = state_distribution(returns, jnp.asarray(first.observation))
        seen = MonteCarlo.of(first.value, float(first.slack.max()))
        found |= {"start": seen, "conformal": calibrate(starts, first)}
    return found


def _occurs(returns: PlannedReturns, rows: np.ndarray) -> Bool[np.ndarray, " n"]:
    """Which rows something is known of: in a counted chain those of states that occur."""
    if isinstance(returns, CountedReturns):
        return returns.seen[rows[:, 0].astype(int)]
    return np.ones(len(rows), bool)


def _learn(
    job: Job,
    transitions: Transitions,
    encoder: ObservationEncoder,
    episodes: Transitions | None = None,
    margin: float = 0.05,
) -> tuple[PlannedReturns, Shape, PlanFigures]:
    """The range of returns is that of `episodes`, with a margin; by default of the transitions."""
    s, episodes = job.settings, transitions if episodes is None else episodes
    figures = PlanFigures(n_transitions=len(transitions))
    if transitions.reward.ndim == 2:
        return plan_vector_returns(job, transitions, encoder)
    if s.mode == "default" and encoder.n_discrete:
        counted = Counted.of(transitions, encoder.n_discrete)
        found = certify(
            counted.chain, s.gamma, accuracy=s.accuracy, n_cells=s.n_basis, memory_gb=s.memory_gb,
            horizon=job.horizon, report=job.report,
        )  # fmt: skip
        return CountedReturns(found, counted.seen), Shape.of_certified(found, s.sigma), figures
    how = LearnSettings(gamma=s.gamma, mode=s.mode, max_iter=s.max_iter, trace=s.trace)
    how = replace(how, n_basis=s.n_basis or how.n_basis)
    if episodes is not transitions:
        # Targets are cut where the policy acts otherwise: nearly one step long, they need many updates.
        how = replace(how, target_memory=_OFF_POLICY_MEMORY)
    seen = find_range(transitions, encoder, s.gamma, episodes, margin)
    if s.support is None and not (encoder.n_discrete or episodes.has_episodes):
        seen = narrowed(transitions, encoder, seen, how, s.seed)
    support = s.support or seen
    warn_of_cuts(support, seen)
    shape = Shape(
        support, how.n_basis, GaussianBasis.on_interval(*support, how.n_basis, s.sigma).sigma
    )
    how = replace(how, sigma=sigma_in_nodes(shape.sigma, how.n_basis, support))
    starts = np.flatnonzero(np.concatenate([[1], episodes.ended[:-1]]))
    learned = learn(
        transitions, encoder, support, how, s.seed,
        starts=starts, run=job.run, progress=job.progress,
    )  # fmt: skip
    return learned.returns, shape, msgspec.structs.replace(figures, loss=learned.loss)


def learn_returns(
    transitions: Transitions, encoder: ObservationEncoder, how: LearnSettings, seed: int
) -> PlannedReturns:
    """Return distributions by a mode of learning, over the range of returns that transitions tell."""
    gamma = float(how.gamma)
    if how.mode == "default" and encoder.n_discrete:
        counted = Counted.of(transitions, encoder.n_discrete)
        return CountedReturns(certify(counted.chain, gamma), counted.seen)
    support = find_range(transitions, encoder, gamma)
    return learn(transitions, encoder, support, how, seed).returns
