"""One call of `plan`: what was asked for, where, and how a result is put together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import jax.numpy as jnp
import msgspec
import numpy as np
from jaxtyping import Float

from bellman_diffusion.environments import make_env
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.certify import SIGMA, Certified, certified_distribution
from bellman_diffusion.planning.counting import CountedReturns
from bellman_diffusion.planning.evaluation import evaluate_exactly
from bellman_diffusion.planning.header import CERTIFIED, COUNTED, TABLE, PlanFigures, PlannerHeader
from bellman_diffusion.planning.learning import LearnSettings
from bellman_diffusion.planning.monte_carlo import MonteCarlo, simulate
from bellman_diffusion.planning.planned_returns import (
    PlannedReturns,
    TableReturns,
    state_distribution,
)
from bellman_diffusion.planning.planner import Planner, encoder_header, start_observations
from bellman_diffusion.planning.transitions import Discount
from bellman_diffusion.planning.vector_rewards import VectorRewards, component_discounts, n_rewards
from bellman_diffusion.returns.mdp import Chain, FiniteMDP
from bellman_diffusion.returns.observations import ObservationEncoder, to_row
from bellman_diffusion.training import Progress, RunFolder

# Basis functions or atoms where nothing else was asked for.
N_BASIS = 41


@dataclass(frozen=True)
class PlanSettings:
    """What to plan and how."""

    env_id: str
    policy: str = "optimal"
    objective: str = "mean"
    """What the optimal policy is best for: mean, cvar:0.1, quantile:0.05, above:10, …"""
    epsilon: float = 0.0
    """A share of random actions mixed into the policy."""
    gamma: float = 0.99
    also_gamma: tuple[float, ...] = ()
    """Further discounts of the same rewards: the return is then a vector, learned from samples."""
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
    max_iter: int = 4000
    trace: float = 0.98
    """λ of the mixtures of n-step targets along sampled episodes."""
    stochastic: bool = False
    """Whether a policy that has a distribution of actions samples from it."""
    normalize: str | None = None
    """The file of VecNormalize that a Stable-Baselines3 policy was trained with."""
    seed: int = 0
    env_options: dict[str, Any] = field(default_factory=dict)


class Shape(NamedTuple):
    """The range of returns, how many numbers a state has, and the smoothing of its density."""

    support: tuple[float, float]
    n_basis: int
    sigma: float
    supports: tuple[tuple[float, float], ...] = ()
    """Of each component of a vector return."""

    @classmethod
    def of_table(cls, table: TableReturns) -> "Shape":
        """Of a basis of functions or atoms."""
        centres = np.asarray(table.centres, float)
        return cls((float(centres[0]), float(centres[-1])), len(centres), float(table.sigma))

    @classmethod
    def of_certified(cls, found: Certified, sigma: float | None) -> "Shape":
        """Of cells; the density is smoothed by a share of the range."""
        low, high = found.range
        return cls((low, high), found.grid.n_cells, sigma or SIGMA * (high - low))


@dataclass(frozen=True)
class Job:
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
        if self.time_limit is None:
            raise InvalidInputError(
                f"--time-limit end: {self.settings.env_id} has no time limit (max_episode_steps)"
            )
        return self.time_limit

    @property
    def time_limit(self) -> int | None:
        """Steps after which the environment truncates an episode."""
        spec = None if self.env is None else self.env.spec
        return None if spec is None else spec.max_episode_steps

    @property
    def n_rewards(self) -> int:
        """Rewards of a step; 0 where a reward is a number."""
        return 0 if self.env is None else n_rewards(self.env)

    @property
    def discounts(self) -> Float[np.ndarray, " dim"] | None:
        """Of each component of a vector return; None where the return is a number."""
        return component_discounts(self.n_rewards, self.settings.gamma, self.settings.also_gamma)

    @property
    def discount(self) -> Discount:
        """γ, or that of each component."""
        return self.settings.gamma if self.discounts is None else self.discounts

    def make(self) -> gym.Env:
        """The environment once more."""
        return self._made({})

    def make_with_limit(self, steps: int) -> gym.Env:
        """The environment with another time limit."""
        return self._made({"max_episode_steps": steps})

    def _made(self, more: dict[str, Any]) -> gym.Env:
        options = self.settings.env_options | more
        if self.discounts is None:
            return make_env(self.settings.env_id, **options)
        # Gymnasium's checker warns of every reward that is a vector.
        env = make_env(self.settings.env_id, **options, disable_env_checker=True)
        return VectorRewards(env, len(self.discounts))

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
        kinds = {Certified: CERTIFIED, CountedReturns: COUNTED, TableReturns: TABLE}
        header = PlannerHeader(
            kind=kinds.get(type(returns), s.mode),
            env_id=s.env_id,
            env_options=s.env_options,
            policy=s.policy,
            epsilon=s.epsilon,
            stochastic=s.stochastic,
            normalize=s.normalize,
            gamma=s.gamma,
            also_gamma=s.also_gamma,
            n_rewards=self.n_rewards,
            time_limit=self.horizon,
            support=shape.support,
            supports=shape.supports,
            n_basis=shape.n_basis,
            sigma=shape.sigma,
            width=learned.width,
            depth=learned.depth,
            n_states=n_states,
            **encoder_header(encoder),
            starts=starts,
            start_rows=[],
            objective=s.objective,
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
        found = [self.monte_carlo(chain, z, i) for i, z in enumerate(states) if s.episodes]
        figures = msgspec.structs.replace(figures, monte_carlo=found)
        encoder = state_encoder(mdp.n_states)
        return self.planner(returns, shape, figures, encoder, starts, mdp.n_states)

    def monte_carlo(self, chain: Chain, state: int, i: int) -> MonteCarlo:
        """Fresh episodes from the i-th start."""
        s = self.settings
        seed = s.seed + 7919 + i
        returns = simulate(chain, s.gamma, state, s.episodes, seed, self.horizon)
        return MonteCarlo.of(returns[:, 0])

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
        predicted = state_distribution(returns, rows, shape.sigma)
        evaluation = evaluate_exactly(predicted, reference, shape.sigma)
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


def state_encoder(n_states: int) -> ObservationEncoder:
    """The states of a table, by index."""
    return ObservationEncoder((1,), n_states)
