"""From an environment and a policy to an evaluated planner: exactly, or from transitions."""

import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import msgspec
import numpy as np
from scipy.stats import norm

from bellman_diffusion.environments import find_mdp, finite_mdp, is_model_file, make_env, read_model
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.acting import (
    GIVEN_POLICY,
    ActingPolicy,
    PolicyFunction,
    table_policy,
)
from bellman_diffusion.planning.certify import Certified, certified_distribution, certify
from bellman_diffusion.planning.evaluation import ExactEvaluation, reference_returns
from bellman_diffusion.planning.exact import solve
from bellman_diffusion.planning.from_samples import (
    plan_from_episodes,
    plan_from_log,
    plan_from_table,
    plan_off_policy,
)
from bellman_diffusion.planning.header import LOGGED_POLICY, PlanFigures
from bellman_diffusion.planning.job import N_BASIS, Job, PlanSettings, Shape, state_encoder
from bellman_diffusion.planning.learning import MODES
from bellman_diffusion.planning.logs import Log
from bellman_diffusion.planning.planned_returns import TableReturns
from bellman_diffusion.planning.planner import Planner, start_observations
from bellman_diffusion.planning.policies import tabular_policy
from bellman_diffusion.planning.risk_optimal import Objective, controlled_chain, risk_optimal_policy
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.mdp import Chain, FiniteMDP, check_gamma
from bellman_diffusion.returns.models import model_names
from bellman_diffusion.returns.projection import BasisProjection, CategoricalProjection, Projection
from bellman_diffusion.returns.reference import CharacteristicReference
from bellman_diffusion.training import Progress, RunFolder

# The smoothing of both sides of `check`, as a share of the range.
_CHECK_SIGMA = 0.002


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
    _check_numbers(settings)
    _check_mode(settings)
    start = time.perf_counter()
    if Objective.parse(settings.objective).kind != "mean" and (settings.samples or policy):
        raise InvalidInputError(
            "an objective finds a policy from a table: give no samples, no policy"
        )
    job, mdp = _job(settings, policy is not None, run, progress, report)
    is_vector = job.discounts is not None
    if is_vector and settings.samples is None:
        raise InvalidInputError(
            "a return of several components (vector rewards, --also-gamma) is learned from samples: "
            "give --samples"
        )
    # Of a table the mode of a policy's actions is asked for in every state.
    acts = settings.stochastic or settings.normalize is not None
    if acts and settings.samples is None:
        raise InvalidInputError(
            "--stochastic and --normalize are for policies that act: give --samples"
        )
    if policy is None and settings.samples is None and mdp is not None:
        planner = _plan_exactly(job, mdp)
    elif not (policy or mdp is None or job.horizon or acts or is_vector):
        planner = plan_from_table(job, mdp)
    else:
        # What is left of the time limit is known in episodes alone.
        planner = plan_from_episodes(job, policy or _of_table(job, mdp))
    # A policy that was given is not what `settings.policy` names: a saved planner must not say so.
    name = settings.policy if policy is None else GIVEN_POLICY
    planner.header = msgspec.structs.replace(planner.header, policy=name)
    return _timed(planner, start)


def plan_from_transitions(
    observation: Any,
    reward: Any,
    next_observation: Any = None,
    terminated: Any = None,
    *,
    truncated: Any = None,
    episode: Any = None,
    action: Any = None,
    policy: str | PolicyFunction | None = None,
    gamma: float = 0.99,
    **settings: Any,
) -> Planner:
    """Evaluate the policy that logged transitions are of; a row for each step, in order.

    `observation` has the shape (n, …); whole numbers are states of a table. `terminated` is 1 where an
    episode ends, `truncated` where it is cut off, `episode` numbers the episodes. Without
    `next_observation` it is the observation of the next row. With `action` and `policy` another policy
    is evaluated than the one that was logged. Other settings are those of `PlanSettings`.
    """
    log = Log.of(observation, reward, next_observation, terminated, truncated, episode, action)
    named = policy if isinstance(policy, str) else LOGGED_POLICY
    given = None if isinstance(policy, str) else policy
    how = PlanSettings("transitions", policy=named, gamma=gamma, **settings)
    return plan_log(how, log, policy=given)


def plan_log(
    settings: PlanSettings,
    log: Log,
    *,
    run: RunFolder | None = None,
    progress: Progress | None = None,
    report: Callable[[str], None] | None = None,
    policy: PolicyFunction | None = None,
) -> Planner:
    """Evaluate the policy that a log is of; or another one, named by the settings or given."""
    _check_numbers(settings)
    usual = PlanSettings(settings.env_id)
    logged = policy is None and settings.policy == LOGGED_POLICY
    never = ("objective", "env_options", "check", "also_gamma")
    for name in (*never, "epsilon", "stochastic", "normalize") if logged else never:
        if getattr(settings, name) != getattr(usual, name):
            raise InvalidInputError(
                f"{name} is not for logs{': the policy of the log is evaluated' if logged else ''}"
            )
    if settings.mode not in (*MODES, *model_names()):
        raise InvalidInputError(
            f"mode {settings.mode!r}: choose {', '.join((*MODES, *model_names()))}"
        )
    if settings.time_limit == "end":
        raise InvalidInputError(
            "--time-limit end: a log does not tell its time limit. Mark truncated rows as terminated"
        )
    start = time.perf_counter()
    job = Job(settings, None, run, progress, report)
    planner = plan_from_log(job, log) if logged else plan_off_policy(job, log, policy)
    return _timed(planner, start)


def _check_numbers(settings: PlanSettings) -> None:
    for gamma in (settings.gamma, *settings.also_gamma):
        check_gamma(gamma)
    if settings.support is not None and not settings.support[0] < settings.support[1]:
        raise InvalidInputError(f"the support {settings.support} is empty: give low < high")
    if not 0 <= settings.trace <= 1:
        raise InvalidInputError(f"trace is {settings.trace}: it must be in [0, 1]")


def _timed(planner: Planner, start: float) -> Planner:
    """With what planning took."""
    figures = msgspec.structs.replace(
        planner.figures, seconds=time.perf_counter() - start, peak_memory_gb=_peak_memory_gb()
    )
    planner.header = msgspec.structs.replace(planner.header, figures=figures)
    return planner


def _of_table(job: Job, mdp: FiniteMDP | None) -> ActingPolicy | None:
    """The policy of a table, acting in the environment."""
    s = job.settings
    if mdp is None or job.env is None or s.stochastic or s.normalize is not None:
        return None
    # Random actions are mixed in as the episode is played.
    table = tabular_policy(s.policy, mdp, job.env, s.gamma, epsilon=0.0)
    return table_policy(table, job.env, s.seed, s.epsilon)


def _job(settings: PlanSettings, given: bool, *watch: Any) -> tuple[Job, FiniteMDP | None]:
    """The environment or model, and its table if it has one."""
    if is_model_file(settings.env_id):
        return Job(settings, None, *watch), read_model(Path(settings.env_id))
    env = make_env(settings.env_id, **settings.env_options)
    # Where nothing else was asked for, a missing table is an error.
    return Job(settings, env, *watch), (find_mdp if given or settings.samples else finite_mdp)(env)


def _peak_memory_gb() -> float:
    """Of the process so far."""
    unit = 1e9 if sys.platform == "darwin" else 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _check_mode(settings: PlanSettings) -> None:
    known = [*MODES, *([] if settings.samples is None else model_names())]
    if settings.mode not in known:
        also = " (other return models need samples)" if settings.samples is None else ""
        raise InvalidInputError(
            f"mode {settings.mode!r}: choose {', '.join(dict.fromkeys(known))}{also}"
        )


def _plan_for_risk(job: Job, mdp: FiniteMDP, objective: Objective) -> Planner:
    """The policy over state and stock that is best for the whole return, and its certified return."""
    s = job.settings
    if (
        s.policy != "optimal"
        or s.mode != "default"
        or s.epsilon
        or s.samples
        or s.time_limit == "end"
    ):
        raise InvalidInputError(
            f"--objective {s.objective} finds a policy from a transition table: leave out --policy, "
            "--mode, --epsilon, --samples and --time-limit"
        )
    policy = risk_optimal_policy(mdp, s.gamma, objective)
    controlled = controlled_chain(mdp, policy)
    certified = _certify(job, controlled.chain)
    starts = start_observations(job.env, mdp, s.seed)
    rows = np.array([np.flatnonzero(controlled.state == job.state(o))[0] for o in starts])
    found = [
        job.monte_carlo(controlled.chain, int(row), i) for i, row in enumerate(rows) if s.episodes
    ]
    figures, shape = _figures(certified, s)
    figures = msgspec.structs.replace(figures, monte_carlo=found)
    planner = job.planner(
        certified.of_states(rows), shape, figures, state_encoder(len(rows)), starts, len(rows)
    )
    planner.stock_policy = policy
    return planner


def _certify(job: Job, chain: Chain) -> Certified:
    s = job.settings
    return certify(
        chain,
        s.gamma,
        accuracy=s.accuracy,
        n_cells=s.n_basis,
        memory_gb=s.memory_gb,
        horizon=job.horizon,
        report=job.report,
    )


def _figures(certified: Certified, s: PlanSettings) -> tuple[PlanFigures, Shape]:
    low, high = certified.range
    figures = PlanFigures(
        n_updates=certified.n_updates,
        n_cells=certified.grid.n_cells,
        accuracy_reached=certified.accuracy,
        return_range=high - low,
    )
    return figures, Shape.of_certified(certified, s.sigma)


def _plan_exactly(job: Job, mdp: FiniteMDP) -> Planner:
    s = job.settings
    objective = Objective.parse(s.objective)
    if objective.kind != "mean":
        return _plan_for_risk(job, mdp, objective)
    chain = mdp.under(tabular_policy(s.policy, mdp, job.env, s.gamma, s.epsilon))
    if s.mode == "default":
        certified = _certify(job, chain)
        figures, shape = _figures(certified, s)
        if s.check:
            exact = _check(certified, chain, s.gamma)
            figures = msgspec.structs.replace(figures, exact=exact)
        return job.finish(certified, shape, figures, mdp, chain)
    if job.horizon is not None:
        raise InvalidInputError(f"--time-limit end is for the default mode, not for {s.mode}")
    reference = reference_returns(chain, s.gamma)
    returns = _solve_on_basis(chain, s, reference)
    return job.compare(returns, Shape.of_table(returns), PlanFigures(), mdp, chain, reference)


def _check(certified: Certified, chain: Chain, gamma: float) -> ExactEvaluation:
    """Against an independent computation, both smoothed a little: the characteristic function."""
    low, high = certified.range
    sigma = _CHECK_SIGMA * (high - low)
    reference = CharacteristicReference(chain, gamma, sigma)
    x = np.linspace(reference.low, reference.high, 2001)
    states = np.arange(chain.n_states)
    found = certified_distribution(certified, states)
    exact, half_widths = reference.cdf(x), np.asarray(found.half_width, float)
    w1 = []
    for s in states:
        atoms, half = np.asarray(found.atoms[s], float), half_widths[s]
        width = np.sqrt(sigma**2 + half**2 / 3)
        cdf = norm.cdf((x[:, None] - atoms) / width) @ np.asarray(found.mass[s], float)
        w1.append(np.trapezoid(np.abs(cdf - exact[s]), x))
    return ExactEvaluation(
        reference=f"characteristic function, smoothed by σ = {sigma:.3g}",
        reference_error=reference.error,
        n_states=chain.n_states,
        w1_worst=float(np.max(w1)),
        w1_mean=float(np.mean(w1)),
        w1_worst_relative=float(np.max(w1) / (high - low)),
        mean_error_worst=float(np.abs(reference.mean - certified.moments.mean).max()),
        return_range=high - low,
    )


def _solve_on_basis(chain: Chain, s: PlanSettings, reference: Certified) -> TableReturns:
    """By exact backups on a basis of functions or atoms: the paper's recipe, or C51."""
    found = reference.range
    support = s.support or found
    _warn_of_cuts(support, found)
    basis = GaussianBasis.on_interval(*support, s.n_basis or N_BASIS, s.sigma)
    solution = solve(chain, s.gamma, _projection(basis, s.mode))
    arrays = (solution.coefficients, basis.centres[:, 0], basis.sigma)
    return TableReturns(*(jnp.asarray(a, jnp.float32) for a in arrays))


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


def _projection(basis: GaussianBasis, mode: str) -> Projection:
    if mode == "c51":
        return CategoricalProjection(basis)
    if mode == "paper":
        return BasisProjection.of_paper(basis)
    return BasisProjection(basis)
