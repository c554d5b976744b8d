"""A planner: what was learned about a policy's returns, for whom, and how accurate it is."""

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from bellman_diffusion.environments import is_model_file, make_env
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.cells import Cells, Grid
from bellman_diffusion.planning.certify import Certified
from bellman_diffusion.planning.conformal import interval
from bellman_diffusion.planning.counting import CountedReturns
from bellman_diffusion.planning.header import CERTIFIED, COUNTED, TABLE, PlanFigures, PlannerHeader
from bellman_diffusion.planning.learning import LearnSettings, planner_model
from bellman_diffusion.planning.planned_returns import (
    AlongReturns,
    PlannedReturns,
    TableReturns,
    joint_distribution,
    state_distribution,
)
from bellman_diffusion.planning.risk_optimal import StockPolicy
from bellman_diffusion.planning.vector_rewards import component_names
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.joint import JointReturn
from bellman_diffusion.returns.mdp import FiniteMDP
from bellman_diffusion.returns.models import LearnedReturns, Normalisation
from bellman_diffusion.returns.models.particles import Particles
from bellman_diffusion.returns.moments import Moments
from bellman_diffusion.returns.observations import (
    ObservationEncoder,
    ObservationScaler,
    finite_shape,
    timed,
    timed_space,
    to_rows,
)
from bellman_diffusion.returns.support import Support
from bellman_diffusion.training.checkpoint import read_checkpoint, write_checkpoint

PLANNER_FILE = "planner.bellman"
POLICY_FILE = "policy.npz"
_KIND = "planner"


# A list of observations, or an array of them.
Observations = Sequence[Any] | np.ndarray | Array


class Planner:
    """The return distributions of a policy from any observation of one environment."""

    def __init__(
        self, returns: PlannedReturns, header: PlannerHeader, exact: AtomicReturn | None = None
    ) -> None:
        self.returns = returns
        self.header = header
        self.exact = exact
        """The exact distributions from the starts, where planning found them; not saved."""
        self.stock_policy: StockPolicy | None = None
        """The policy over state and stock that is optimal for a risk objective; saved by itself."""

    def __repr__(self) -> str:
        h = self.header
        kinds = {CERTIFIED: "certified", COUNTED: "counted", TABLE: "exact"}
        n = h.figures.n_transitions
        how = kinds.get(h.kind, "learned" if h.kind == "default" else f"learned ({h.kind})")
        how += "" if n is None else f" from {n:,} transitions"
        how += f", {len(self.components)} components" if self.is_vector else ""
        low, high = h.support
        what = f"{h.env_id}, policy {h.policy}, gamma {h.gamma:g}: {how}"
        return f"Planner({what}, returns in [{low:.4g}, {high:.4g}])"

    @property
    def figures(self) -> PlanFigures:
        """How planning went and how accurate it is."""
        return self.header.figures

    @property
    def starts(self) -> list[Any]:
        """Observations that episodes start from."""
        return self.header.starts

    @cached_property
    def space(self) -> gym.Space:
        """The environment's observations; a model's are its states."""
        h = self.header
        if h.actions is not None:
            return h.actions.space(h.observation_shape[0])
        if h.from_log:
            finite = h.n_discrete and gym.spaces.Discrete(h.n_discrete)
            return finite or gym.spaces.Box(-np.inf, np.inf, h.observation_shape)
        if is_model_file(h.env_id):
            return gym.spaces.Discrete(h.n_states or 1)
        space = make_env(h.env_id, **h.env_options).observation_space
        return timed_space(space) if self.is_timed else space

    @property
    def is_timed(self) -> bool:
        """Whether its model reads how many steps of the time limit have passed."""
        learned = isinstance(self.returns, LearnedReturns | AlongReturns)
        return self.header.time_limit is not None and learned

    @property
    def is_vector(self) -> bool:
        """Whether the return has several components: `joint` and `along` answer then."""
        return bool(self.header.supports)

    @property
    def components(self) -> list[str]:
        """Names of the components of a vector return."""
        h = self.header
        return component_names(h.n_rewards, h.gamma, h.also_gamma) if self.is_vector else []

    def along(self, weights: Sequence[float] | np.ndarray) -> "Planner":
        """The plan of w·X, a component of a vector return or any mixture: no new training is needed."""
        if not self.is_vector or not isinstance(self.returns, LearnedReturns):
            raise InvalidInputError(
                "this plan's return is one number: use distribution(observations)"
            )
        w, h = np.asarray(weights, float), self.header
        if w.shape != (len(h.supports),) or not np.isfinite(w).all() or not w.any():
            raise InvalidInputError(
                f"weights are {weights}: give a number for each of {', '.join(self.components)}, not "
                "all of them 0"
            )
        low, high = np.sort(w[:, None] * np.array(h.supports), axis=1).sum(axis=0)
        is_component = w.max() == 1 and np.count_nonzero(w) == 1
        known = self.figures.components
        figures = known[int(w.argmax())] if is_component and known else PlanFigures()
        own = self.figures
        figures = msgspec.structs.replace(
            figures, n_transitions=own.n_transitions, seconds=own.seconds
        )
        header = msgspec.structs.replace(
            h, supports=(), support=(float(low), float(high)), figures=figures,
            sigma=float(np.linalg.norm(w * np.ptp(h.supports, axis=1)) * Particles.sigma),
        )  # fmt: skip
        return Planner(AlongReturns.of(self.returns, w), header)

    def joint(
        self, observations: Observations | None = None, elapsed: Sequence[int] | None = None
    ) -> JointReturn:
        """The joint distribution of a vector return from each observation.

        Without observations it is that of an episode: the mixture over the starts of held-out ones.
        `elapsed` are the steps that episodes took to the observations, as in `distribution`.
        """
        if not self.is_vector or not isinstance(self.returns, LearnedReturns):
            raise InvalidInputError(
                "this plan's return is one number: use distribution(observations)"
            )
        if observations is None:
            rows = np.asarray(self.header.start_rows, np.float32)
            return joint_distribution(self.returns, jnp.asarray(rows)).mixture()
        rows = self._rows(observations, None, elapsed)
        return joint_distribution(self.returns, jnp.asarray(rows))

    def distribution(
        self,
        observations: Observations,
        actions: Observations | None = None,
        elapsed: Sequence[int] | None = None,
    ) -> ReturnDistribution:
        """The return distributions of a list or an array of observations, one for each.

        Off-policy plans know the returns of pairs: give the `actions` as well, or a list of pairs.
        `elapsed` are the steps that episodes took to them, for a learned plan with `--time-limit end`;
        by default none. Inside `jax.jit` or `jax.vmap` give an array of observations of a learned plan.
        """
        if self.is_vector:
            raise InvalidInputError(
                f"the return has {len(self.components)} components: use joint(observations), or "
                "along(weights).distribution(observations)"
            )
        if isinstance(observations, Tracer):
            return self._traced(observations)
        if self.header.objective != "mean":
            return self._of_starts(observations)
        rows = self._rows(observations, actions, elapsed)
        self._check_seen(rows)
        return self._of_rows(jnp.asarray(rows))

    def _rows(
        self,
        observations: Observations,
        actions: Observations | None,
        elapsed: Sequence[int] | None,
    ) -> Float[np.ndarray, "n *shape"]:
        """Observations as they are stored."""
        if isinstance(observations, Array):
            observations = np.asarray(observations)
        if actions is not None:
            if self.header.actions is None:
                raise InvalidInputError(
                    "this plan knows the return of an observation, not of an action: plan off-policy"
                )
            observations = list(zip(observations, actions, strict=True))
        if self.is_timed:
            limit = self.header.time_limit or 1
            steps = [0] * len(observations) if elapsed is None else elapsed
            pairs = zip(observations, steps, strict=True)
            observations = [timed(o, step / limit) for o, step in pairs]
        try:
            rows = to_rows(self.space, observations)
        except (TypeError, ValueError) as error:
            pairs = "pairs (observation, action)" if self.header.actions else "observations"
            raise InvalidInputError(f"give a list of {pairs} of {self.space}: {error}") from error
        if rows.shape[1:] != self.header.observation_shape:
            raise InvalidInputError(f"these are not observations of {self.space}")
        return rows

    def start_distribution(self) -> AtomicReturn:
        """The return of an episode: the mixture over the starts of the held-out episodes."""
        if not self.header.start_rows:
            raise InvalidInputError(
                "the start distribution is known to plans that are learned from episodes: "
                "use distribution(starts)"
            )
        found = self._of_rows(jnp.asarray(self.header.start_rows, jnp.float32))
        if not isinstance(found, AtomicReturn):
            raise InvalidInputError(
                f"the distributions of --mode {self.header.kind} are no atoms, so they are not mixed"
            )
        return found.mixture()

    def interval(
        self, observations: Observations, level: float = 0.9
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Ends of an interval for each observation that covers with a probability of `level`.

        By split conformal prediction on held-out episodes: the promise is for observations that
        episodes start from.
        """
        known = {c.level: c.widening for c in self.figures.conformal}
        if level not in known:
            have = ", ".join(f"{k:g}" for k in known) or "none: too few held-out episodes ended"
            raise InvalidInputError(
                f"there is no calibrated interval of level {level:g}; levels that there are: {have}"
            )
        return interval(self.distribution(observations), level, known[level])

    def all_states(self) -> ReturnDistribution:
        """The return distributions of every state of a finite environment, by index."""
        n = self.header.n_states
        if n is None:
            raise InvalidInputError("the environment has no list of states: use distribution()")
        return self._of_rows(jnp.arange(n, dtype=jnp.float32)[:, None])

    def _traced(self, rows: Array) -> ReturnDistribution:
        """Of an array that a JAX transformation handles: no value can be looked at."""
        shape = self.header.observation_shape
        plain = isinstance(self.returns, LearnedReturns | AlongReturns) and not (
            self.is_timed or self.header.actions
        )
        if not plain or rows.shape[1:] != shape:
            raise InvalidInputError(
                f"inside jax.jit a learned plan of observations takes an array of shape (n, "
                f"{', '.join(map(str, shape))}); this plan is {self.header.kind}, the array's shape is "
                f"{rows.shape}. Tables, pairs and time limits: call distribution outside of jax.jit"
            )
        return self._of_rows(rows.astype(jnp.float32))

    def _check_seen(self, rows: np.ndarray) -> None:
        """Nothing is known of a state that does not occur in the transitions."""
        if not isinstance(self.returns, CountedReturns):
            return
        unseen = [int(r) for r in rows[:, 0] if not self.returns.seen[int(r)]]
        if unseen:
            raise InvalidInputError(
                f"state {unseen[0]} does not occur in the transitions, so nothing is known of its "
                "return: use more --samples, or a policy that goes there"
            )

    def _of_starts(self, observations: Observations) -> ReturnDistribution:
        """A policy that looks at the stock has no return distribution of a state alone."""
        known = self.header.starts
        plain = [plain_observation(o) for o in observations]
        if not all(o in known for o in plain):
            raise InvalidInputError(
                f"the policy for {self.header.objective} depends on the rewards so far: its return "
                f"distribution is known from the starts {known} alone"
            )
        rows = np.array([[known.index(o)] for o in plain], np.float32)
        return self._of_rows(jnp.asarray(rows))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, atomically."""
        if isinstance(self.returns, AlongReturns):
            raise InvalidInputError("save the plan that this one is a component of")
        write_checkpoint(Path(path), _KIND, self.returns, self.header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Planner":
        """Read a saved planner from its file or its run's folder."""
        file = Path(path) / PLANNER_FILE if Path(path).is_dir() else Path(path)
        returns, header = read_checkpoint(file, _KIND, PlannerHeader, _like)
        planner = cls(returns, header)
        beside = file.with_name(POLICY_FILE)
        if header.objective != "mean" and beside.is_file():
            planner.stock_policy = StockPolicy.load(beside)
        return planner

    def _of_rows(self, rows: Float[Array, "n *shape"]) -> ReturnDistribution:
        return state_distribution(self.returns, rows, self.header.sigma)


def encoder_header(encoder: ObservationEncoder) -> dict[str, Any]:
    """An encoder as the header keeps it."""
    return {
        "observation_shape": encoder.shape,
        "n_discrete": encoder.n_discrete,
        "byte_scale": encoder.divisor if encoder.bytes else None,
    }


def start_observations(
    env: gym.Env | None, mdp: FiniteMDP | None, seed: int, most: int = 3
) -> list[Any]:
    """Where episodes start: the likeliest states, or what the environment's reset gives."""
    if env is None:
        start = None if mdp is None else mdp.start
    else:
        start = getattr(env.unwrapped, "initial_state_distrib", None)
    if start is not None and (env is None or finite_shape(env.observation_space) is not None):
        likeliest = np.argsort(-np.asarray(start), kind="stable")[:most]
        return [int(i) for i in likeliest if start[i] > 0]
    assert env is not None
    found = [plain_observation(env.reset(seed=seed + i)[0]) for i in range(most)]
    return [o for i, o in enumerate(found) if o not in found[:i]]


def plain_observation(observation: Any) -> Any:
    """An observation that JSON can hold."""
    if isinstance(observation, dict):
        return {k: plain_observation(v) for k, v in observation.items()}
    if isinstance(observation, tuple):
        return [plain_observation(v) for v in observation]
    return np.asarray(observation).tolist()


def sigma_in_nodes(sigma: float, n_basis: int, support: tuple[float, float]) -> float:
    """A smoothing of the return in spacings of the nodes."""
    return sigma * (n_basis - 1) / (support[1] - support[0])


def _like(header: PlannerHeader) -> PlannedReturns:
    """What is to be filled with the saved arrays."""
    k = header.n_basis
    if header.kind in (CERTIFIED, COUNTED):
        n = header.n_states or 0
        cells = Cells(*(np.zeros((n, k)) for _ in range(3)))
        moments = Moments(np.zeros(n), np.zeros(n), 0.0, 0.0)
        grid = Grid(0.0, 1.0, k)
        found = Certified(grid, cells, moments, np.zeros((n, 2)), 0, 0.0, 0.0, 0.0)
        return found if header.kind == CERTIFIED else CountedReturns(found, np.zeros(n, bool))
    if header.kind == TABLE:
        return TableReturns(jnp.zeros((header.n_states or 0, k)), jnp.zeros(k), jnp.zeros(()))
    encoder = ObservationEncoder(
        header.observation_shape,
        header.n_discrete,
        bytes=header.byte_scale is not None,
        divisor=header.byte_scale or 1.0,
    )
    settings = LearnSettings(
        mode=header.kind,
        n_basis=k,
        sigma=sigma_in_nodes(header.sigma, k, header.support),
        width=header.width,
        depth=header.depth,
        n_components=len(header.supports),
    )
    model = planner_model(settings, encoder)
    ends = header.support
    if header.supports:
        ends = [np.array(side, np.float32) for side in zip(*header.supports, strict=True)]
    normalisation = Normalisation(ObservationScaler.identity(encoder), Support.fixed(*ends))
    return LearnedReturns(model, model.network(jax.random.key(0)), normalisation)
