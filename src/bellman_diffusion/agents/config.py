"""All settings of an agent's training, in one place."""

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bellman_diffusion.agents.risk import Risk
from bellman_diffusion.errors import InvalidInputError


@dataclass(frozen=True)
class AgentConfig:
    """What to train on, with which algorithm, and how."""

    env_id: str
    env_options: dict[str, Any] = field(default_factory=dict, hash=False)
    """Arguments of the environment, as `gymnasium.make` takes them."""
    algo: str = "bellman"
    """bellman, bellman-cramer, bellman-paper, c51, qr-dqn, dqn, or a name that was registered."""
    steps: int = 50_000
    """Environment steps of each seed."""
    gamma: float = 0.99
    risk: str = "mean"
    """What actions are chosen by: mean, cvar:0.1, quantile:0.25, above:10."""

    n_outputs: int = 31
    """Basis functions, atoms or quantiles of each action's return."""
    sigma: float | None = None
    """bellman: the smoothing of the return, in spacings of its nodes; see `smoothing`."""
    support: tuple[float, float] | None = None
    """The range of returns; found and grown where it is not given."""

    hidden: tuple[int, ...] = (64, 64)
    """Units of each hidden layer (after the convolution, for images)."""
    normalise: bool = True
    """Standardise observations by those of the random steps at the start."""
    learning_rate: float = 5e-4
    learning_rate_end: float = 0.0
    """The rate falls in a line to this share of itself over the run; 1 keeps it."""
    batch_size: int = 128
    max_grad_norm: float = 10.0

    n_envs: int = 1
    """Environments that each seed steps in parallel."""
    steps_per_round: int = 10
    """Environment steps between two rounds of updates."""
    updates_per_round: int = 4
    learning_starts: int = 1_000
    """Random steps before the first update."""
    replay: int = 100_000
    """Transitions that are kept."""
    n_step: int = 5
    """n of the n-step return."""
    double: bool = False
    """Choose the next action with the learned network, not with the target network."""
    target_every: int = 0
    """Updates after which the target network becomes the learned network; 0 for a soft target."""
    target_rate: float = 0.01
    """Share by which a soft target network moves at each update."""
    epsilon_start: float = 1.0
    epsilon_end: float = 0.02
    epsilon_steps: int = 5_000
    """Steps over which the share of random actions falls."""
    ema_decay: float = 0.0
    """Decay of the running average of the weights that acts in evaluations; 0 for the last weights."""

    eval_every: int = 1_000
    """Steps between two evaluations by greedy episodes."""
    eval_episodes: int = 20

    def __post_init__(self) -> None:
        """Refuse what cannot be run, before anything is written."""
        _check(self)

    @property
    def rounds_per_chunk(self) -> int:
        """Rounds of steps and updates between two evaluations."""
        return self.eval_every // self.steps_per_round

    @property
    def rows_per_round(self) -> int:
        """Steps that each environment takes in a round."""
        return self.steps_per_round // self.n_envs

    @property
    def smoothing(self) -> float:
        """σ in spacings: the given one, or the least at which a backup is exact on the nodes.

        A weight between two nodes cannot be put on them with less variance than t(1 − t) ≤ 1/4, and the
        noise that a backup must add is (1 − γ²ⁿ)σ². A tenth of the nodes is the most that it may take.
        An agent that chooses by risk needs sharp tails more than exact variances: one node.
        """
        if self.sigma is not None:
            return self.sigma
        if self.risk != "mean":
            return 1.0
        lost = 1 - self.gamma ** (2 * self.n_step)
        return min(0.5 / math.sqrt(lost) if lost else math.inf, self.n_outputs / 10)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)


# Whole numbers that may be 0, or have a limit of their own.
_MAY_BE_LESS = ("n_outputs", "target_every", "epsilon_steps")


def _check(c: AgentConfig) -> None:
    for f in fields(c):
        value = getattr(c, f.name)
        if f.type is int and f.name not in _MAY_BE_LESS and value < 1:
            raise InvalidInputError(f"{f.name} is {value}: it must be at least 1")
    _require(0 < c.gamma <= 1, f"gamma is {c.gamma}: it must be in (0, 1]")
    _require(c.n_outputs >= 3, f"n_outputs is {c.n_outputs}: at least 3 are needed")
    _require(c.sigma is None or c.sigma > 0, f"sigma is {c.sigma}: it must be positive")
    _require(c.learning_rate > 0, f"learning_rate is {c.learning_rate}: it must be positive")
    _require(0 <= c.ema_decay < 1, f"ema_decay is {c.ema_decay}: it must be in [0, 1)")
    _require(0 < c.target_rate <= 1, f"target_rate is {c.target_rate}: it must be in (0, 1]")
    for name in ("epsilon_start", "epsilon_end", "learning_rate_end"):
        _require(0 <= getattr(c, name) <= 1, f"{name} is {getattr(c, name)}: give 0 to 1")
    _require(bool(c.hidden) and min(c.hidden) >= 1, "hidden needs at least one layer")
    _require(
        c.support is None or (len(c.support) == 2 and c.support[0] < c.support[1]),
        f"the support {c.support}: give two numbers, low < high",
    )
    _require(
        c.steps_per_round % c.n_envs == 0,
        f"steps_per_round {c.steps_per_round} is no multiple of n_envs {c.n_envs}",
    )
    _require(
        c.eval_every % c.steps_per_round == 0,
        f"eval_every {c.eval_every} is no multiple of steps_per_round {c.steps_per_round}",
    )
    _require(
        c.steps % c.eval_every == 0,
        f"steps {c.steps} is no multiple of eval_every {c.eval_every}: round it",
    )
    _require(
        c.replay >= max(c.learning_starts, c.batch_size, c.n_envs * (c.n_step + 1)),
        f"a replay of {c.replay} is smaller than learning_starts ({c.learning_starts}) or one batch",
    )
    if c.sigma is not None and c.algo == "bellman":
        noise = (1 - c.gamma ** (2 * c.n_step)) * c.sigma**2
        _require(
            noise <= 1,
            f"sigma {c.sigma} with gamma {c.gamma} and n_step {c.n_step} adds a noise of {noise:.2g} "
            f"spacings² at each backup: at most 1 can be added. Use a sigma of at most "
            f"{c.sigma / math.sqrt(noise):.3g}",
        )
    Risk.parse(c.risk)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidInputError(message)
