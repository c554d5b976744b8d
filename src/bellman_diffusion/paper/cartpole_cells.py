"""The settings of the cart-pole comparison, its trainings, and their figures."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jaxtyping import Float, Int

from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.evaluation import PredictedReturns, evaluate_returns, evaluate_states
from bellman_diffusion.agents.jax_learner import JaxLearner
from bellman_diffusion.agents.make import make_jax_learner
from bellman_diffusion.agents.train import Training
from bellman_diffusion.metrics.aggregate import (
    Difference,
    difference,
    iqm,
    iqm_interval,
    median_ratio_interval,
)
from bellman_diffusion.paper import agent_cells
from bellman_diffusion.paper.agent_cells import LearningCurve, acting
from bellman_diffusion.paper.experiment import Workplace
from bellman_diffusion.render.page import with_error

ALGORITHMS = ("bellman", "bellman-paper", "c51", "qr-dqn")
SETTINGS = ("plain", "best")
SOLVED = 475.0
IN_A_ROW = 5
"""Evaluations that must reach it one after the other: a single one may be chance."""
_RANGE = 100.0
"""Returns of CartPole at γ = 0.99 lie between 0 and 100."""
FIELD_WIDTH = 0.05
"""√ξ of the paper's model in shares of that range: fields are compared under this smoothing."""

_COMMON: dict[str, Any] = {"env_id": "CartPole-v1", "support": (0.0, _RANGE), "eval_every": 1_000}
_PLAIN: dict[str, Any] = {
    "hidden": (120, 84),
    "normalise": False,
    "learning_rate": 2.5e-4,
    "learning_rate_end": 1.0,
    "n_step": 1,
    "target_every": 50,
    "replay": 10_000,
    "updates_per_round": 1,
    "epsilon_end": 0.05,
    "epsilon_steps": 10_000,
}
# What belongs to the return model: tuned for each on other seeds.
_PLAIN_MODEL: dict[str, dict[str, Any]] = {
    "bellman": {"n_outputs": 27, "sigma": 3.0},
    "bellman-paper": {"n_outputs": 31, "sigma": 1.5},
    "c51": {"n_outputs": 31},
    "qr-dqn": {"n_outputs": 31},
}
_BEST: dict[str, Any] = {
    "hidden": (64, 64),
    "n_outputs": 31,
    "learning_rate": 5e-4,
    "n_step": 3,
    "updates_per_round": 8,
    "epsilon_end": 0.05,
    "ema_decay": 0.995,
}
_BEST_MODEL: dict[str, dict[str, Any]] = {
    # More updates and more steps cost much and do not help it; a rate that falls and a full replay do.
    "bellman-paper": _PLAIN
    | _PLAIN_MODEL["bellman-paper"]
    | {"normalise": True, "learning_rate_end": 0.0, "replay": 100_000, "ema_decay": 0.995},
    "qr-dqn": {"learning_rate": 1e-3},
}


class StateFields(msgspec.Struct, kw_only=True, rename={"mean_return": "return"}):
    """Both fields of a state's predicted return on a grid, and the mean return of rollouts."""

    x: list[float]
    density: list[float]
    slope: list[float]
    mean_return: float


class CartCell(LearningCurve, kw_only=True):
    """The training of one algorithm, and the errors of each seed."""

    seconds: float | None
    return_w1: list[float]
    scalar_error: list[float]
    gradient_error: list[float]
    fields: list[StateFields]


class SeedFigures(msgspec.Struct, kw_only=True):
    """By seed."""

    relapses: list[float | None]
    return_w1: list[float]
    scalar_error: list[float]
    gradient_error: list[float]


class SpeedUp(NamedTuple):
    """C51's median steps over another's, and the ends of the 95 % interval.

    0 and ∞ where one of them never gets there, not a number where neither does.
    """

    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        if np.isfinite(self.ratio) and self.ratio > 0:
            ends = ["∞" if np.isinf(end) else f"{end:.1f}" for end in (self.low, self.high)]
            return f"{self.ratio:.1f} × ({ends[0]} to {ends[1]})"
        if np.isnan(self.ratio):
            return "neither median seed gets there"
        who = "C51's median seed never gets there" if self.ratio else "only C51's gets there"
        # The interval of a ratio that may be anything says nothing.
        unclear = self.low <= 1 <= self.high
        return f"{who}; which is faster is not significant" if unclear else who


class CartRow(msgspec.Struct, kw_only=True):
    """Figures over seeds; steps are None where the median seed never gets there."""

    median_steps: float | None
    worst_steps: float | None
    relapses: float | None
    iqm: float
    iqm_interval: tuple[float, float]
    seconds: float | None
    return_w1: float
    scalar_error: float
    gradient_error: float
    first_solved: list[float | None]
    first_reached: list[float | None]
    per_seed: SeedFigures

    @classmethod
    def of(cls, cell: CartCell) -> "CartRow":
        """The figures over seeds."""
        steps, returns = np.array(cell.steps), np.array(cell.returns)
        firsts = [first_reached(steps, row, IN_A_ROW) for row in returns]
        relapses = [relapse_share(row) for row in returns]
        reached = [share for share in relapses if share is not None]
        last = returns[:, -10:].mean(axis=1)
        low, high = iqm_interval(last)
        names = ("return_w1", "scalar_error", "gradient_error")
        errors = {name: getattr(cell, name) for name in names}
        return cls(
            median_steps=_finite(float(np.median(firsts))),
            worst_steps=_finite(float(np.max(firsts))),
            relapses=float(np.mean(reached)) if reached else None,
            iqm=float(iqm(last)),
            iqm_interval=(float(low), float(high)),
            seconds=cell.seconds,
            **{name: float(np.mean(values)) for name, values in errors.items()},
            first_solved=[_finite(first) for first in firsts],
            first_reached=[_finite(first_reached(steps, row)) for row in returns],
            per_seed=SeedFigures(relapses=relapses, **errors),
        )

    @property
    def known_relapses(self) -> list[float]:
        """Of the seeds that got there."""
        return [share for share in self.per_seed.relapses if share is not None]

    def shown(self, name: str, form: str) -> str:
        """The mean of a figure with its standard error over the seeds that have it."""
        mean, values = getattr(self, name), getattr(self.per_seed, name)
        if mean is None:
            return "–"
        return with_error(mean, [value for value in values if value is not None], form)

    def speed_up(self, c51: "CartRow", criterion: str = "first_solved") -> SpeedUp:
        """By the steps to a solved cart-pole; seeds that never got there count as infinite."""
        theirs, own = (
            np.array([np.inf if value is None else value for value in getattr(row, criterion)])
            for row in (c51, self)
        )
        with np.errstate(invalid="ignore"):
            ratio = float(np.median(theirs) / np.median(own))
        return SpeedUp(ratio, *median_ratio_interval(theirs, own))

    def stability_gain(self, c51: "CartRow") -> Difference | None:
        """How many fewer evaluations relapse than C51's; None where fewer than two seeds got there."""
        own, theirs = self.known_relapses, c51.known_relapses
        return difference(theirs, own) if min(len(own), len(theirs)) > 1 else None


def cartpole_config(setting: str, algo: str, steps: int) -> AgentConfig:
    """The settings of one cell of the comparison."""
    base = _PLAIN | _PLAIN_MODEL[algo] if setting == "plain" else _BEST | _BEST_MODEL.get(algo, {})
    return AgentConfig(**(_COMMON | base | {"algo": algo, "steps": steps}))


def load_or_train(
    work: Workplace, setting: str, algo: str, steps: int, seeds: list[int]
) -> CartCell:
    """One algorithm in one setting."""
    name, title = f"{setting}-{algo}", f"{setting} {algo}"
    config = cartpole_config(setting, algo, steps)
    return agent_cells.load_or_train(work, name, title, config, seeds, CartCell, _evaluate)


def _evaluate(training: Training) -> CartCell:
    whole, seeds = make_jax_learner(training.config), training.seeds
    key = jax.random.key(10_000 + seeds[0])
    predicted = [
        evaluate_returns(whole, jax.random.fold_in(key, i), *acting(training, i))
        for i in range(len(seeds))
    ]
    errors = [[float(e.mean()) for e in p.field_errors(FIELD_WIDTH * _RANGE)] for p in predicted]
    shown = evaluate_states(whole, key, *acting(training, 0), _first_and_last(whole))
    steps = len(training.steps) * training.config.eval_every * len(seeds)
    rate = training.steps_per_second
    return CartCell(
        steps=training.steps.tolist(),
        returns=training.returns.T.round(2).tolist(),
        # There is no rate where the training was over before it was stopped.
        seconds=steps / rate if rate else None,
        return_w1=[float(p.w1().mean()) / _RANGE for p in predicted],
        scalar_error=[scalar for scalar, _ in errors],
        gradient_error=[gradient for _, gradient in errors],
        fields=_fields(shown),
    )


def _first_and_last(whole: JaxLearner) -> tuple[Any, jax.Array]:
    """A start, and the last state before the pole falls to a cart that is always pushed right."""
    state, seen = whole.environment.reset(jax.random.key(0))
    first, last = (state, seen), (state, seen)
    for t in range(100):
        now, step = whole.environment.step(jax.random.key(t), state, jnp.asarray(1))
        if bool(step.terminated):
            break
        state, last = now, (now, step.observation)
    return jax.tree.map(lambda *a: jnp.stack(a), first, last)


def _fields(predicted: PredictedReturns) -> list[StateFields]:
    x = np.linspace(-15, 115, 521).astype(np.float32)
    distributions = predicted.distributions
    density, slope = (
        np.asarray(f(jnp.asarray(x))) for f in (distributions.pdf, distributions.gradient)
    )
    return [
        StateFields(
            x=x.tolist(), density=_short(s), slope=_short(g), mean_return=float(returns.mean())
        )
        for s, g, returns in zip(density, slope, predicted.returns, strict=True)
    ]


def _short(values: Float[np.ndarray, " n"]) -> list[float]:
    """Four significant digits: some fields are tiny."""
    return [float(f"{value:.4g}") for value in values]


def first_reached(
    steps: Int[np.ndarray, " n"], returns: Float[np.ndarray, " n"], in_a_row: int = 1
) -> float:
    """The step of the first of some evaluations in a row at the bar; infinite if there are none."""
    reached = returns >= SOLVED
    if len(reached) < in_a_row:
        return np.inf
    rows = np.lib.stride_tricks.sliding_window_view(reached, in_a_row).all(axis=1)
    return float(steps[np.argmax(rows)]) if rows.any() else np.inf


def relapse_share(returns: Float[np.ndarray, " n"]) -> float | None:
    """How many evaluations are below the bar after the first at it; None where none come after.

    Stability and not speed: the time that it took to learn does not count.
    """
    reached = returns >= SOLVED
    later = reached[np.argmax(reached) + 1 :] if reached.any() else reached[:0]
    return float(np.mean(~later)) if later.size else None


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
