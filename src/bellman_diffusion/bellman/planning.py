"""From an environment and a policy to a judged planner: exactly, or from transitions."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np

from bellman_diffusion.bellman.basis import GaussianBasis
from bellman_diffusion.bellman.dynamic_programming import solve
from bellman_diffusion.bellman.environments import make_env
from bellman_diffusion.bellman.judge import against_exact, against_returns
from bellman_diffusion.bellman.learn import (
    NEGLIGIBLE_CUT,
    LearnSettings,
    Mode,
    cut_off,
    find_support,
    learn,
)
from bellman_diffusion.bellman.mdp import (
    Chain,
    check_gamma,
    mean_return,
    second_moment,
)
from bellman_diffusion.bellman.planner import Planner, describe
from bellman_diffusion.bellman.policies import (
    GIVEN_POLICY,
    PolicyFunction,
    load_policy,
    tabular_policy,
    with_random,
)
from bellman_diffusion.bellman.projection import BasisProjection, CategoricalProjection, Projection
from bellman_diffusion.bellman.reference import CharacteristicLaw, return_bounds
from bellman_diffusion.bellman.return_fields import ReturnField, TableField
from bellman_diffusion.bellman.tables import finite_mdp
from bellman_diffusion.bellman.transitions import (
    Transitions,
    collect,
    known_returns,
    partial_returns,
    sample_chain,
)
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.training import Progress, RunFolder

# Mass outside the support that is found for a finite environment, on each side.
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
    mode: Mode = "default"
    functions: int = 41
    sigma: float | None = None
    """The smoothing; by default the spacing of the functions."""
    support: tuple[float, float] | None = None
    """The range of returns; found where it is not given."""
    samples: int | None = None
    """Transitions to learn from; None for the exact solution from the transition table."""
    max_iter: int = 10_000
    seed: int = 0
    env_options: dict[str, Any] = field(default_factory=dict)


def plan(
    settings: PlanSettings,
    *,
    run: RunFolder | None = None,
    progress: Progress | None = None,
    report: Callable[[str], None] | None = None,
    policy: PolicyFunction | None = None,
) -> Planner:
    """Learn the laws of the policy's returns and judge them; `planner.meta["figures"]` has the figures.

    `policy`, a function from observation to action, may be given in place of `settings.policy`.
    """
    check_gamma(settings.gamma)
    if settings.support is not None and not settings.support[0] < settings.support[1]:
        raise InvalidInputError(f"the support {settings.support} is empty: give low < high")
    env = make_env(settings.env_id, **settings.env_options)
    start = time.perf_counter()
    if policy is not None:
        # Not what `settings.policy` names: a saved planner must not say so.
        settings = replace(settings, policy=GIVEN_POLICY)
    if policy is None and (settings.samples is None or _has_table(env)):
        planner = _plan_finite(settings, env, run, progress, report)
    else:
        planner = _plan_from_episodes(settings, env, policy, run, progress, report)
    planner.meta["figures"]["seconds"] = time.perf_counter() - start
    return planner


def plan_chain(chain: Chain, settings: PlanSettings) -> tuple[TableField, GaussianBasis, dict]:
    """The exact solution of a finite chain, judged against the exact laws."""
    found = exact_support(chain, settings.gamma)
    support = settings.support or found
    _warn_of_cuts(support, found)
    basis = GaussianBasis.on_interval(*support, settings.functions, settings.sigma)
    solution = solve(chain, settings.gamma, _projection(basis, settings.mode))
    table = jnp.asarray(solution.coefficients, jnp.float32)
    arrays = (jnp.asarray(a, jnp.float32) for a in (basis.centres[:, 0], basis.sigma))
    laws = TableField(table, *arrays)
    figures = _judge_finite(laws, chain, settings.gamma, basis)
    return laws, basis, figures | {"n_updates": solution.n_updates}


def exact_support(chain: Chain, gamma: float) -> tuple[float, float]:
    """The range that holds all but a sliver of every state's law."""
    least, greatest = return_bounds(chain, gamma)
    wide = CharacteristicLaw(chain, gamma, sigma=_coarse_sigma(chain, gamma))
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
            stacklevel=3,
        )


def _coarse_sigma(chain: Chain, gamma: float) -> float:
    mean = mean_return(chain, gamma)[:, 0]
    deviation = np.sqrt(np.maximum(second_moment(chain, gamma)[:, 0, 0] - mean**2, 0))
    spread = (mean + 4 * deviation).max() - (mean - 4 * deviation).min()
    return float(max(spread * _COARSE, 1e-4 * (1 + np.abs(mean).max())))


def _plan_finite(
    settings: PlanSettings,
    env: gym.Env,
    run: RunFolder | None,
    progress: Progress | None,
    report: Callable[[str], None] | None,
) -> Planner:
    mdp = finite_mdp(env)
    policy = tabular_policy(settings.policy, mdp, env, settings.gamma, settings.epsilon)
    chain = mdp.under(policy)
    if settings.samples is None:
        laws, basis, figures = plan_chain(chain, settings)
        return _planner(laws, basis, settings, env, figures, mdp.n_states, exact=True)
    transitions = sample_chain(chain, settings.samples, settings.seed)
    space = gym.spaces.Discrete(mdp.n_states)
    laws, basis, figures = _learn(settings, transitions, space, run, progress, report)
    figures |= _judge_finite(laws, chain, settings.gamma, basis)
    return _planner(laws, basis, settings, env, figures, mdp.n_states)


def _plan_from_episodes(
    settings: PlanSettings,
    env: gym.Env,
    policy: PolicyFunction | None,
    run: RunFolder | None,
    progress: Progress | None,
    report: Callable[[str], None] | None,
) -> Planner:
    if settings.samples is None:
        raise InvalidInputError("a policy given as a function needs samples: how many transitions?")
    seed = settings.seed
    if policy is None:
        act = load_policy(settings.policy, env, seed, settings.epsilon)
    else:
        act = with_random(policy, env, seed, settings.epsilon)
    transitions = collect(env, act, settings.samples, seed)
    # Other episodes than those learned from; a quarter as many transitions.
    held_out = known_returns(
        collect(env, act, max(settings.samples // 4, 1), seed + 1_000_003), settings.gamma
    )
    space = env.observation_space
    laws, basis, figures = _learn(settings, transitions, space, run, progress, report)
    if len(held_out.value):
        distribution = laws.distribution(jnp.asarray(held_out.observation))
        figures |= against_returns(distribution, held_out)
    else:
        warnings.warn(
            "no held-out episode ended, so nothing judges the laws: use more --samples, or gamma < 1",
            RuntimeWarning,
            stacklevel=2,
        )
    return _planner(laws, basis, settings, env, figures, None)


def _learn(
    settings: PlanSettings,
    transitions: Transitions,
    space: gym.Space,
    run: RunFolder | None,
    progress: Progress | None,
    report: Callable[[str], None] | None,
) -> tuple[ReturnField, GaussianBasis, dict[str, Any]]:
    how = LearnSettings(gamma=settings.gamma, mode=settings.mode, max_iter=settings.max_iter)
    support = settings.support
    if support is None:
        guess = _guess_support(transitions, settings.gamma)
        support = find_support(
            transitions, space, guess, settings.functions, how, settings.seed, report
        )
    basis = GaussianBasis.on_interval(*support, settings.functions, settings.sigma)
    learned = learn(transitions, space, basis, how, settings.seed, run=run, progress=progress)
    left, right = cut_off(learned.field, transitions, settings.gamma, settings.seed)
    if max(left, right) > NEGLIGIBLE_CUT:
        side = "below" if left > right else "above"
        warnings.warn(
            f"the support [{support[0]:.4g}, {support[1]:.4g}] cuts off returns {side} it: mean "
            f"returns are off by about {max(left, right):.1%} of its width. Widen --support.",
            RuntimeWarning,
            stacklevel=2,
        )
    return learned.field, basis, {**learned.figures, "n_transitions": len(transitions)}


def _guess_support(transitions: Transitions, gamma: float) -> tuple[float, float]:
    """The range of the returns seen, with some room; of the rewards where rows are not episodes."""
    reward = transitions.reward
    low, high = min(0.0, float(reward.min())), max(0.0, float(reward.max()))
    if not np.all(transitions.ended):
        value, _ = partial_returns(transitions, gamma)
        margin = 0.05 * (value.max() - value.min())
        low, high = float(value.min() - margin), float(value.max() + margin)
    return (low, high) if high > low else (low - 1.0, high + 1.0)


def _planner(
    laws: ReturnField,
    basis: GaussianBasis,
    settings: PlanSettings,
    env: gym.Env,
    figures: dict[str, Any],
    n_states: int | None,
    exact: bool = False,
) -> Planner:
    meta = describe(
        kind="table" if exact else settings.mode,
        env_id=settings.env_id,
        env_options=settings.env_options,
        policy=settings.policy,
        epsilon=settings.epsilon,
        basis=basis,
        settings=LearnSettings(gamma=settings.gamma),
        n_states=n_states,
        encoder=getattr(laws, "encoder", None),
        figures=figures,
    )
    return Planner(laws, env.observation_space, meta)


def chain_of(meta: dict[str, Any]) -> Chain:
    """The chain of a planner's environment and policy; an error where there is no table."""
    env = make_env(meta["env_id"], **meta["env_options"])
    mdp = finite_mdp(env)
    return mdp.under(tabular_policy(meta["policy"], mdp, env, meta["gamma"], meta["epsilon"]))


def _projection(basis: GaussianBasis, mode: Mode) -> Projection:
    if mode == "c51":
        return CategoricalProjection(basis)
    if mode == "paper":
        return BasisProjection(basis, "l2", noise_preserving=False, keep_mean=False)
    return BasisProjection(basis)


def _judge_finite(laws: Any, chain: Chain, gamma: float, basis: GaussianBasis) -> dict[str, Any]:
    rows = jnp.arange(chain.n_states, dtype=jnp.float32)[:, None]
    width = float(basis.high[0] - basis.low[0])
    return against_exact(laws.distribution(rows), chain, gamma, basis.sigma, width)


def _has_table(env: gym.Env) -> bool:
    try:
        finite_mdp(env)
    except InvalidInputError:
        return False
    return True
