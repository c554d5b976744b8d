"""From an environment and a policy to an evaluated planner: exactly, or from transitions."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import msgspec
import numpy as np

from bellman_diffusion.environments import find_mdp, finite_mdp, make_env
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.evaluation import (
    evaluate_against_returns,
    evaluate_exactly,
    exact_returns,
)
from bellman_diffusion.planning.exact import solve
from bellman_diffusion.planning.learning import (
    MODES,
    NEGLIGIBLE_OVERFLOW,
    LearnSettings,
    find_support,
    learn,
    overflow,
)
from bellman_diffusion.planning.planner import (
    TABLE,
    PlanFigures,
    Planner,
    PlannerHeader,
    TableReturns,
    encoder_header,
    sigma_in_nodes,
    start_observations,
    state_distribution,
)
from bellman_diffusion.planning.policies import (
    GIVEN_POLICY,
    PolicyFunction,
    load_policy,
    tabular_policy,
    with_random,
)
from bellman_diffusion.planning.transitions import Transitions, collect, known_returns, sample_chain
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.mdp import Chain, check_gamma, mean_return, second_moment
from bellman_diffusion.returns.models import LearnedReturns, model_names
from bellman_diffusion.returns.observations import ObservationEncoder, to_row
from bellman_diffusion.returns.projection import BasisProjection, CategoricalProjection, Projection
from bellman_diffusion.returns.reference import CharacteristicReference, return_bounds
from bellman_diffusion.training import Progress, RunFolder

# Probability outside the support that is found for a finite environment, on each side.
_TAIL_MASS = 1e-5
# Smoothing while the support is looked for, in shares of the widest range that returns may have.
_COARSE = 1 / 100


@dataclass(frozen=True)
class PlanSettings:
    """What to plan and how."""

    env_id: str
    policy: str = "optimal"
    epsilon: float = 0.0
    """A share of random actions mixed into the policy."""
    gamma: float = 0.99
    mode: str = "default"
    """default, paper or c51; with samples also any other return model."""
    n_basis: int = 41
    """Basis functions, or C51's atoms."""
    sigma: float | None = None
    """The smoothing; by default the spacing of the basis functions."""
    support: tuple[float, float] | None = None
    """The range of returns; found where it is not given."""
    samples: int | None = None
    """Transitions to learn from; None for the exact solution from the transition table."""
    max_iter: int = 10_000
    seed: int = 0
    env_options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Job:
    """One call of `plan`: the environment is made once, and its table read once."""

    settings: PlanSettings
    env: gym.Env
    run: RunFolder | None = None
    progress: Progress | None = None
    report: Callable[[str], None] | None = None

    def planner(
        self,
        returns: TableReturns | LearnedReturns,
        basis: GaussianBasis,
        figures: PlanFigures,
        encoder: ObservationEncoder,
        n_states: int | None = None,
        exact: Any = None,
    ) -> Planner:
        """The result, with all that is known about it."""
        s, learned = self.settings, LearnSettings()
        starts = start_observations(self.env, s.seed)
        header = PlannerHeader(
            kind=TABLE if isinstance(returns, TableReturns) else s.mode,
            env_id=s.env_id,
            env_options=s.env_options,
            policy=s.policy,
            epsilon=s.epsilon,
            gamma=s.gamma,
            support=(float(basis.low[0]), float(basis.high[0])),
            n_basis=len(basis.centres),
            sigma=basis.sigma,
            width=learned.width,
            depth=learned.depth,
            n_states=n_states,
            **encoder_header(encoder),
            starts=starts,
            figures=figures,
        )
        if exact is not None:
            exact = exact.of([int(to_row(self.env.observation_space, o)[0]) for o in starts])
        return Planner(returns, header, exact)


def plan(
    settings: PlanSettings,
    *,
    run: RunFolder | None = None,
    progress: Progress | None = None,
    report: Callable[[str], None] | None = None,
    policy: PolicyFunction | None = None,
) -> Planner:
    """Evaluate a policy: its return distributions, and how accurate they are (`planner.figures`).

    `policy`, a function from observation to action, may be given in place of `settings.policy`.
    """
    check_gamma(settings.gamma)
    _check_mode(settings)
    if settings.support is not None and not settings.support[0] < settings.support[1]:
        raise InvalidInputError(f"the support {settings.support} is empty: give low < high")
    start = time.perf_counter()
    job = _Job(settings, make_env(settings.env_id, **settings.env_options), run, progress, report)
    if policy is None and settings.samples is None:
        planner = _plan_exactly(job)
    elif policy is None and (mdp := find_mdp(job.env)) is not None:
        planner = _plan_from_table(job, mdp)
    else:
        planner = _plan_from_episodes(job, policy)
    figures = msgspec.structs.replace(planner.figures, seconds=time.perf_counter() - start)
    # A policy that was given is not what `settings.policy` names: a saved planner must not say so.
    name = settings.policy if policy is None else GIVEN_POLICY
    planner.header = msgspec.structs.replace(planner.header, figures=figures, policy=name)
    return planner


def _check_mode(settings: PlanSettings) -> None:
    known = [*MODES, *([] if settings.samples is None else model_names())]
    if settings.mode not in known:
        also = " (other return models need samples)" if settings.samples is None else ""
        raise InvalidInputError(
            f"mode {settings.mode!r}: choose {', '.join(dict.fromkeys(known))}{also}"
        )


def _plan_exactly(job: _Job) -> Planner:
    s, mdp = job.settings, finite_mdp(job.env)
    chain = mdp.under(tabular_policy(s.policy, mdp, job.env, s.gamma, s.epsilon))
    returns, basis, n_updates = plan_chain(chain, s)
    exact, figures = _evaluate(returns, chain, s.gamma, basis)
    figures = PlanFigures(n_updates=n_updates, exact=figures)
    return job.planner(returns, basis, figures, _encoder(mdp.n_states), mdp.n_states, exact)


def _plan_from_table(job: _Job, mdp: Any) -> Planner:
    """From transitions that are drawn from the table, evaluated against the exact distributions."""
    s = job.settings
    chain = mdp.under(tabular_policy(s.policy, mdp, job.env, s.gamma, s.epsilon))
    assert s.samples is not None
    transitions = sample_chain(chain, s.samples, s.seed)
    encoder = _encoder(mdp.n_states)
    returns, basis, figures = _learn(job, transitions, encoder)
    exact, evaluation = _evaluate(returns, chain, s.gamma, basis)
    figures = msgspec.structs.replace(figures, exact=evaluation)
    return job.planner(returns, basis, figures, encoder, mdp.n_states, exact)


def _plan_from_episodes(job: _Job, policy: PolicyFunction | None) -> Planner:
    s, env = job.settings, job.env
    if s.samples is None:
        raise InvalidInputError("a policy given as a function needs samples: how many transitions?")
    if policy is None:
        act = load_policy(s.policy, env, s.seed, s.epsilon)
    else:
        act = with_random(policy, env, s.seed, s.epsilon)
    encoder = ObservationEncoder.for_space(env.observation_space, s.env_id)
    transitions = collect(env, act, s.samples, s.seed)
    # Other episodes than those learned from; a quarter as many transitions.
    held_out = known_returns(collect(env, act, max(s.samples // 4, 1), s.seed + 1_000_003), s.gamma)
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
    return job.planner(returns, basis, figures, encoder)


def plan_chain(chain: Chain, settings: PlanSettings) -> tuple[TableReturns, GaussianBasis, int]:
    """The exact solution of a finite chain, its basis, and the number of Bellman updates."""
    found = exact_support(chain, settings.gamma)
    support = settings.support or found
    _warn_of_cuts(support, found)
    basis = GaussianBasis.on_interval(*support, settings.n_basis, settings.sigma)
    solution = solve(chain, settings.gamma, _projection(basis, settings.mode))
    arrays = (solution.coefficients, basis.centres[:, 0], basis.sigma)
    returns = TableReturns(*(jnp.asarray(a, jnp.float32) for a in arrays))
    return returns, basis, solution.n_updates


def exact_support(chain: Chain, gamma: float) -> tuple[float, float]:
    """The range that holds all but a sliver of every state's returns."""
    least, greatest = return_bounds(chain, gamma)
    wide = CharacteristicReference(chain, gamma, sigma=_coarse_sigma(chain, gamma))
    x = np.linspace(wide.low, wide.high, 2001)
    cdf = wide.cdf(x)
    low = x[np.argmax(cdf > _TAIL_MASS, axis=1)].min()
    high = x[np.argmax(cdf >= 1 - _TAIL_MASS, axis=1)].max()
    low, high = max(float(low), least), min(float(high), greatest)
    # A policy whose return is always the same needs a little room all the same.
    margin = max(1e-3 * (abs(low) + abs(high)), 1e-6)
    return (low, high) if high - low > margin else (low - margin, high + margin)


def _warn_of_cuts(support: tuple[float, float], found: tuple[float, float]) -> None:
    """A support of the user's that leaves out returns."""
    room = 0.01 * (found[1] - found[0])
    if support[0] > found[0] + room or support[1] < found[1] - room:
        warnings.warn(
            f"the support [{support[0]:.4g}, {support[1]:.4g}] cuts off returns, which range over "
            f"[{found[0]:.4g}, {found[1]:.4g}]. Widen --support.",
            RuntimeWarning,
            stacklevel=4,
        )


def _coarse_sigma(chain: Chain, gamma: float) -> float:
    mean = mean_return(chain, gamma)[:, 0]
    deviation = np.sqrt(np.maximum(second_moment(chain, gamma)[:, 0, 0] - mean**2, 0))
    spread = (mean + 4 * deviation).max() - (mean - 4 * deviation).min()
    return float(max(spread * _COARSE, 1e-4 * (1 + np.abs(mean).max())))


def _learn(
    job: _Job, transitions: Transitions, encoder: ObservationEncoder
) -> tuple[LearnedReturns, GaussianBasis, PlanFigures]:
    s = job.settings
    how = LearnSettings(gamma=s.gamma, mode=s.mode, n_basis=s.n_basis, max_iter=s.max_iter)
    support = s.support or find_support(transitions, encoder, how, s.seed, job.report)
    basis = GaussianBasis.on_interval(*support, s.n_basis, s.sigma)
    sigma = sigma_in_nodes(basis.sigma, s.n_basis, support)
    how = LearnSettings(
        gamma=s.gamma, mode=s.mode, n_basis=s.n_basis, sigma=sigma, max_iter=s.max_iter
    )
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
    return learned.returns, basis, figures


def _evaluate(
    returns: TableReturns | LearnedReturns, chain: Chain, gamma: float, basis: GaussianBasis
) -> tuple[Any, Any]:
    """The exact distributions of every state, and the errors against them."""
    rows = jnp.arange(chain.n_states, dtype=jnp.float32)[:, None]
    exact = exact_returns(chain, gamma, basis.sigma)
    means, width = mean_return(chain, gamma)[:, 0], float(basis.high[0] - basis.low[0])
    return exact, evaluate_exactly(state_distribution(returns, rows), exact, means, width)


def _projection(basis: GaussianBasis, mode: str) -> Projection:
    if mode == "c51":
        return CategoricalProjection(basis)
    if mode == "paper":
        return BasisProjection(basis, "l2", noise_preserving=False, keep_mean=False)
    return BasisProjection(basis)


def _encoder(n_states: int) -> ObservationEncoder:
    """The states of a table, by index."""
    return ObservationEncoder((1,), n_states)
