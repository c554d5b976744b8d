"""From an environment and a policy to an evaluated planner: exactly, or from transitions."""

import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import jax.numpy as jnp
import msgspec
import numpy as np
from scipy.stats import norm

from bellman_diffusion.environments import find_mdp, finite_mdp, is_model_file, make_env, read_model
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.certify import SIGMA, Certified, certified_distribution, certify
from bellman_diffusion.planning.evaluation import (
    ExactEvaluation,
    evaluate_against_returns,
    evaluate_exactly,
    reference_returns,
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
from bellman_diffusion.planning.monte_carlo import MonteCarlo, simulate
from bellman_diffusion.planning.planner import (
    CERTIFIED,
    TABLE,
    PlanFigures,
    PlannedReturns,
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
from bellman_diffusion.returns.mdp import Chain, FiniteMDP, check_gamma
from bellman_diffusion.returns.models import LearnedReturns, model_names
from bellman_diffusion.returns.observations import ObservationEncoder, to_row
from bellman_diffusion.returns.projection import BasisProjection, CategoricalProjection, Projection
from bellman_diffusion.returns.reference import CharacteristicReference
from bellman_diffusion.training import Progress, RunFolder

_N_BASIS = 41
# The smoothing of both sides of `check`, as a share of the range.
_CHECK_SIGMA = 0.002


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
    accuracy: float = 1e-3
    """Of exact planning: the W1 bound and CVaR 10 % interval of every state, as shares of the range."""
    memory_gb: float = 4.0
    """What exact planning may use."""
    time_limit: Literal["bootstrap", "end"] = "bootstrap"
    """Whether a time limit is a truncation, or ends the episode as its score counts it."""
    check: bool = False
    """Whether exact planning is compared with an independent computation."""
    episodes: int = 20_000
    """Monte-Carlo episodes from each start of a table, for comparison."""
    n_basis: int | None = None
    """Basis functions, atoms, or cells; by default 41, and of exact planning as many as it needs."""
    sigma: float | None = None
    """The smoothing of the density; by default the spacing of the basis functions."""
    support: tuple[float, float] | None = None
    """The range of returns; found where it is not given."""
    samples: int | None = None
    """Transitions to learn from; None for the exact solution from the transition table."""
    max_iter: int = 10_000
    seed: int = 0
    env_options: dict[str, Any] = field(default_factory=dict)


class Shape(NamedTuple):
    """The range of returns, how many numbers a state has, and the smoothing of its density."""

    support: tuple[float, float]
    n_basis: int
    sigma: float

    @classmethod
    def of_table(cls, table: TableReturns) -> "Shape":
        """Of a basis of functions or atoms."""
        centres = np.asarray(table.centres, float)
        return cls((centres[0], centres[-1]), len(centres), float(table.sigma))


@dataclass(frozen=True)
class _Job:
    """One call of `plan`: the environment is made once, and its table read once."""

    settings: PlanSettings
    env: gym.Env | None
    """None where a model file is all there is."""
    run: RunFolder | None = None
    progress: Progress | None = None
    report: Callable[[str], None] | None = None

    @property
    def horizon(self) -> int | None:
        """Steps after which an episode ends; None where time limits are truncations."""
        if self.settings.time_limit != "end":
            return None
        limit = (
            None if self.env is None or self.env.spec is None else self.env.spec.max_episode_steps
        )
        if limit is None:
            raise InvalidInputError(
                f"--time-limit end: {self.settings.env_id} has no time limit (max_episode_steps)"
            )
        return limit

    def planner(
        self,
        returns: PlannedReturns,
        shape: Shape,
        figures: PlanFigures,
        encoder: ObservationEncoder,
        starts: list[Any],
        n_states: int | None = None,
    ) -> Planner:
        """The result, with all that is known about it."""
        s, learned = self.settings, LearnSettings()
        kinds = {Certified: CERTIFIED, TableReturns: TABLE}
        header = PlannerHeader(
            kind=kinds.get(type(returns), s.mode),
            env_id=s.env_id,
            env_options=s.env_options,
            policy=s.policy,
            epsilon=s.epsilon,
            gamma=s.gamma,
            time_limit=self.horizon,
            support=shape.support,
            n_basis=shape.n_basis,
            sigma=shape.sigma,
            width=learned.width,
            depth=learned.depth,
            n_states=n_states,
            **encoder_header(encoder),
            starts=starts,
            figures=figures,
        )
        return Planner(returns, header)

    def finish(
        self,
        returns: PlannedReturns,
        shape: Shape,
        figures: PlanFigures,
        mdp: FiniteMDP,
        chain: Chain,
    ) -> Planner:
        """The planner of a table, next to Monte-Carlo returns from its starts."""
        s = self.settings
        starts = start_observations(self.env, mdp, s.seed)
        states = [self.state(o) for o in starts]
        found = [
            MonteCarlo.of(
                simulate(chain, s.gamma, state, s.episodes, s.seed + 7919 + i, self.horizon)[:, 0]
            )
            for i, state in enumerate(states)
            if s.episodes
        ]
        figures = msgspec.structs.replace(figures, monte_carlo=found)
        encoder = _encoder(mdp.n_states)
        return self.planner(returns, shape, figures, encoder, starts, mdp.n_states)

    def compare(
        self,
        returns: PlannedReturns,
        shape: Shape,
        figures: PlanFigures,
        mdp: FiniteMDP,
        chain: Chain,
        reference: Certified,
    ) -> Planner:
        """`finish`, evaluated against the return's own distribution."""
        rows = jnp.arange(chain.n_states, dtype=jnp.float32)[:, None]
        evaluation = evaluate_exactly(state_distribution(returns, rows), reference)
        figures = msgspec.structs.replace(figures, exact=evaluation)
        planner = self.finish(returns, shape, figures, mdp, chain)
        states = np.array([self.state(o) for o in planner.starts])
        planner.exact = certified_distribution(reference, states, shape.sigma)
        return planner

    def state(self, observation: Any) -> int:
        """The state that an observation of a table stands for."""
        if self.env is None:
            return int(observation)
        return int(to_row(self.env.observation_space, observation)[0])


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
    job, mdp = _job(settings, policy is not None, run, progress, report)
    if policy is None and settings.samples is None and mdp is not None:
        planner = _plan_exactly(job, mdp)
    elif policy is None and mdp is not None:
        planner = _plan_from_table(job, mdp)
    else:
        planner = _plan_from_episodes(job, policy)
    figures = msgspec.structs.replace(
        planner.figures, seconds=time.perf_counter() - start, peak_memory_gb=_peak_memory_gb()
    )
    # A policy that was given is not what `settings.policy` names: a saved planner must not say so.
    name = settings.policy if policy is None else GIVEN_POLICY
    planner.header = msgspec.structs.replace(planner.header, figures=figures, policy=name)
    return planner


def _job(settings: PlanSettings, given: bool, *watch: Any) -> tuple[_Job, FiniteMDP | None]:
    """The environment or model, and its table if it has one."""
    if is_model_file(settings.env_id):
        return _Job(settings, None, *watch), read_model(Path(settings.env_id))
    env = make_env(settings.env_id, **settings.env_options)
    # Where nothing else was asked for, a missing table is an error.
    return _Job(settings, env, *watch), (find_mdp if given or settings.samples else finite_mdp)(env)


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


def _plan_exactly(job: _Job, mdp: FiniteMDP) -> Planner:
    s = job.settings
    chain = mdp.under(tabular_policy(s.policy, mdp, job.env, s.gamma, s.epsilon))
    if s.mode == "default":
        certified = certify(
            chain,
            s.gamma,
            accuracy=s.accuracy,
            n_cells=s.n_basis,
            memory_gb=s.memory_gb,
            horizon=job.horizon,
            report=job.report,
        )
        low, high = certified.range
        figures = PlanFigures(
            n_updates=certified.n_updates,
            n_cells=certified.grid.n_cells,
            accuracy_reached=certified.accuracy,
            return_range=high - low,
            exact=_check(certified, chain, s.gamma) if s.check else None,
        )
        sigma = s.sigma or SIGMA * (high - low)
        shape = Shape((low, high), certified.grid.n_cells, sigma)
        return job.finish(certified, shape, figures, mdp, chain)
    if job.horizon is not None:
        raise InvalidInputError(f"--time-limit end is for the default mode, not for {s.mode}")
    reference = reference_returns(chain, s.gamma)
    returns = _solve_on_basis(chain, s, reference)
    return job.compare(returns, Shape.of_table(returns), PlanFigures(), mdp, chain, reference)


def _plan_from_table(job: _Job, mdp: FiniteMDP) -> Planner:
    """From transitions that are drawn from the table, evaluated against the exact distributions."""
    s = job.settings
    chain = mdp.under(tabular_policy(s.policy, mdp, job.env, s.gamma, s.epsilon))
    assert s.samples is not None
    transitions = sample_chain(chain, s.samples, s.seed)
    returns, shape, figures = _learn(job, transitions, _encoder(mdp.n_states))
    return job.compare(returns, shape, figures, mdp, chain, reference_returns(chain, s.gamma))


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


def _plan_from_episodes(job: _Job, policy: PolicyFunction | None) -> Planner:
    s, env = job.settings, job.env
    if env is None:
        raise InvalidInputError(f"{s.env_id} is a model: its policy is a name or a .npy table")
    if s.time_limit == "end":
        raise InvalidInputError(
            "--time-limit end needs a transition table: learned return distributions bootstrap through "
            "time limits"
        )
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
    starts = start_observations(env, None, s.seed)
    return job.planner(returns, basis, figures, encoder, starts)


def _solve_on_basis(chain: Chain, s: PlanSettings, reference: Certified) -> TableReturns:
    """By exact backups on a basis of functions or atoms: the paper's recipe, or C51."""
    found = reference.range
    support = s.support or found
    _warn_of_cuts(support, found)
    basis = GaussianBasis.on_interval(*support, s.n_basis or _N_BASIS, s.sigma)
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


def _learn(
    job: _Job, transitions: Transitions, encoder: ObservationEncoder
) -> tuple[LearnedReturns, Shape, PlanFigures]:
    s = job.settings
    n_basis = s.n_basis or _N_BASIS
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


def _projection(basis: GaussianBasis, mode: str) -> Projection:
    if mode == "c51":
        return CategoricalProjection(basis)
    if mode == "paper":
        return BasisProjection(basis, "l2", noise_preserving=False, keep_mean=False)
    return BasisProjection(basis)


def _encoder(n_states: int) -> ObservationEncoder:
    """The states of a table, by index."""
    return ObservationEncoder((1,), n_states)
