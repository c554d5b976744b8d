"""What a saved planner says of itself: what was planned, for whom, and how accurate it is."""

from typing import Any

import gymnasium as gym
import msgspec
import numpy as np

from bellman_diffusion.planning.conformal import Conformal
from bellman_diffusion.planning.evaluation import ExactEvaluation, HeldOutEvaluation
from bellman_diffusion.planning.monte_carlo import MonteCarlo
from bellman_diffusion.training.checkpoint import Header

# What a plan of a log is the plan of.
LOGGED_POLICY = "logged"
CERTIFIED, COUNTED, TABLE = "certified", "counted", "table"


class Correlation(msgspec.Struct, frozen=True, kw_only=True):
    """Between the components of a vector return."""

    predicted: list[list[float]]
    monte_carlo: list[list[float]]
    """Of the held-out episodes."""


class PlanFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How planning went and how accurate it is."""

    loss: float | None = None
    n_transitions: int | None = None
    n_updates: int | None = None
    n_cells: int | None = None
    accuracy_reached: float | None = None
    """The worst state's W1 bound or CVaR 10 % interval, as a share of the range."""
    return_range: float | None = None
    seconds: float = 0.0
    peak_memory_gb: float | None = None
    monte_carlo: list[MonteCarlo] = []
    """Of fresh episodes from each start."""
    start: MonteCarlo | None = None
    """Of the held-out episodes, from the start distribution."""
    conformal: list[Conformal] = []
    """Widenings of intervals that promise a coverage, calibrated on held-out episodes."""
    outside_log: float | None = None
    """Of an off-policy plan: the share of the policy's pairs that nothing in the log is near of."""
    exact: ExactEvaluation | None = None
    held_out: HeldOutEvaluation | None = None
    components: list["PlanFigures"] = []
    """Of a vector return: those of each component."""
    correlation: Correlation | None = None
    """Of a vector return: between the components, over episodes from the start distribution."""

    @property
    def evaluation(self) -> ExactEvaluation | HeldOutEvaluation | None:
        """Against whichever reference there is."""
        return self.exact or self.held_out

    def to_json(self) -> dict[str, Any]:
        """All figures at one level; what was not measured is left out."""
        own = msgspec.to_builtins(self)
        evaluation = {} if self.evaluation is None else msgspec.to_builtins(self.evaluation)
        del own["exact"], own["held_out"]
        known = {name: value for name, value in own.items() if value not in (None, [])}
        if self.components:
            known["components"] = [figures.to_json() for figures in self.components]
        return known | evaluation


class ActionHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The actions of an off-policy plan, which knows the return of pairs (observation, action)."""

    n_states: int
    """Observations of a finite space; 0 for a box."""
    n_actions: int
    """Of a discrete space; 0 for a box."""
    size: int = 1
    """Numbers of an action."""

    @classmethod
    def of(cls, observed: gym.Space, acted: gym.Space) -> "ActionHeader":
        """Of a log's observations and actions."""
        n, k = (int(s.n) if isinstance(s, gym.spaces.Discrete) else 0 for s in (observed, acted))
        return cls(n_states=n, n_actions=k, size=1 if k else int(np.prod(acted.shape or ())))

    def space(self, n_features: int) -> gym.Space:
        """The space of pairs, of so many features where it is not finite."""

        def part(n: int, size: int) -> gym.Space:
            return gym.spaces.Discrete(n) if n else gym.spaces.Box(-np.inf, np.inf, (size,))

        n_observed = n_features - (self.n_actions or self.size)
        return gym.spaces.Tuple((part(self.n_states, n_observed), part(self.n_actions, self.size)))


class PlannerHeader(Header, frozen=True, kw_only=True):
    """What `load` needs to rebuild the planner, and what the user wants to know of it."""

    kind: str
    """`certified` or `table` for an exact solution, `counted` for that of the chain of frequencies,
    else the mode that learned it."""
    env_id: str
    env_options: dict[str, Any]
    policy: str
    epsilon: float
    stochastic: bool
    """Whether the policy's actions were sampled from its distribution."""
    normalize: str | None
    gamma: float
    also_gamma: tuple[float, ...] = ()
    """Further discounts of the same rewards: the return is a vector then."""
    n_rewards: int = 0
    """Rewards of a step where it is a vector."""
    time_limit: int | None
    """Steps after which an episode ends; None where the limit is a truncation."""
    support: tuple[float, float]
    """Of a vector return that of the first component."""
    supports: tuple[tuple[float, float], ...] = ()
    """Of each component of a vector return."""
    n_basis: int
    sigma: float
    width: int
    depth: int
    n_states: int | None
    observation_shape: tuple[int, ...]
    n_discrete: int
    byte_scale: float | None
    """The largest byte of an image, where observations are bytes."""
    from_log: bool = False
    """Whether it was learned from a log: `env_id` is its name then, and there is no environment."""
    actions: ActionHeader | None = None
    """Of an off-policy plan."""
    starts: list[Any]
    """Observations that episodes start from; of an off-policy plan with the policy's action."""
    start_rows: list[Any]
    """Stored observations that held-out episodes started from, where it was learned from episodes."""
    objective: str
    """What the policy is best for, if it is an optimal one."""
    figures: PlanFigures
