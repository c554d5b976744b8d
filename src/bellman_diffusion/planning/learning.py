"""Learn return distributions from transitions by one-step updates (Algorithm 3)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bellman_diffusion.fields.networks import silu
from bellman_diffusion.planning.transitions import Transitions, partial_returns
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.models import (
    Bootstrap,
    HeadModel,
    LearnedReturns,
    ModelSettings,
    Normalisation,
    ReturnModel,
    Transition,
    batched_outputs,
    make_model,
)
from bellman_diffusion.returns.observations import ObservationEncoder, ObservationScaler
from bellman_diffusion.returns.support import Support, grown, reward_bounds
from bellman_diffusion.training import Progress, RunFolder, init_state, make_program, train
from bellman_diffusion.training.optimiser import Schedule

# The return model of each mode; any other registered model is known by its own name.
MODES = {"default": "cramer", "paper": "paper", "c51": "categorical"}
_CHUNK_STEPS = 250
_PAPER_GRID = 400
# A support that moves mean returns by less than this share of its width cuts off nothing that matters.
NEGLIGIBLE_OVERFLOW = 5e-3
_MOST_PILOTS = 12


@dataclass(frozen=True)
class LearnSettings:
    """How return distributions are learned."""

    gamma: float = 0.99
    mode: str = "default"
    n_basis: int = 41
    sigma: float = 1.0
    """The smoothing, in spacings of the nodes."""
    width: int = 64
    depth: int = 2
    max_iter: int = 10_000
    batch_size: int = 1024
    learning_rate: float = 2e-3
    target_memory: float = 50.0
    """Steps that the target network averages over: one Bellman update takes about as long."""


class Learned(NamedTuple):
    """The trained model and the last loss of its training."""

    returns: LearnedReturns
    loss: float


def planner_model(settings: LearnSettings, encoder: ObservationEncoder) -> ReturnModel:
    """The return model of a mode; a planner evaluates one policy, so it has one action."""
    sizes = ModelSettings(
        n_outputs=settings.n_basis,
        sigma=settings.sigma,
        atom_width=settings.sigma,
        hidden=(settings.width,) * settings.depth,
        activation=silu,
        n_grid=_PAPER_GRID,
    )
    return make_model(MODES.get(settings.mode, settings.mode), encoder, 1, sizes)


def learn(
    transitions: Transitions,
    encoder: ObservationEncoder,
    support: tuple[float, float],
    settings: LearnSettings,
    seed: int,
    *,
    run: RunFolder | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Train the model of `settings.mode` on the transitions."""
    model = planner_model(settings, encoder)
    scaler = ObservationScaler.identity(encoder).fitted(jnp.asarray(transitions.observation))
    normalisation = Normalisation(scaler, Support.fixed(*support))
    network = model.network(jax.random.key(seed))
    schedule = Schedule(
        settings.learning_rate, ema_decay=1 - 1 / settings.target_memory, adam_b2=0.999
    )
    action = jnp.zeros((), jnp.int32)
    # The states of a small table are fewer than a batch's rows: each is computed once.
    few = isinstance(model, HeadModel) and 0 < encoder.n_discrete <= settings.batch_size

    def loss(network, target_network, key, data: Transition, n_rows):
        pick, rest = jax.random.split(key)
        index = jax.random.randint(pick, (settings.batch_size,), 0, n_rows)
        batch = Transition(*(a[index] for a in data))
        if few:
            return _loss_of_states(model, network, target_network, normalisation, batch), {}
        ahead = batched_outputs(model, target_network, normalisation, batch.next_observation)

        def one(step, next_outputs, key):
            bootstrap = Bootstrap(target_network, next_outputs, action)
            return model.loss(network, normalisation, step, bootstrap, key)

        keys = jax.random.split(rest, settings.batch_size)
        return jnp.mean(jax.vmap(one)(batch, ahead, keys)), {}

    program = make_program(network, loss, schedule, _CHUNK_STEPS)
    data = _as_data(transitions, settings.gamma)
    key = jax.random.fold_in(jax.random.key(seed), 1)
    state, figures = train(
        lambda state, step, n_steps: program(state, step, n_steps, key, data, len(transitions)),
        init_state(network, schedule),
        settings.max_iter,
        _CHUNK_STEPS,
        run=run,
        progress=progress,
        advice="Lower learning_rate, or use the default mode.",
    )
    trained = eqx.combine(state.average, network)
    return Learned(LearnedReturns(model, trained, normalisation), figures["loss"])


def _loss_of_states(
    model: Any, network: Any, target_network: Any, normalisation: Normalisation, batch: Transition
) -> Array:
    """The mean loss of a batch, from the outputs of every state of a table."""
    states = jnp.arange(normalisation.scaler.encoder.n_discrete, dtype=jnp.float32)[:, None]
    raw = jax.vmap(lambda o: model.raw(network, normalisation, o)[0])(states)
    outputs = batched_outputs(model, target_network, normalisation, states)[:, 0]
    now, later = (o[:, 0].astype(jnp.int32) for o in (batch.observation, batch.next_observation))

    def one(raw, next_outputs, reward, discount):
        backup = BellmanBackup(reward, discount)
        return model.discrepancy(raw, next_outputs, backup, normalisation.support)

    return jnp.mean(jax.vmap(one)(raw[now], outputs[later], batch.reward, batch.discount))


def find_support(
    transitions: Transitions,
    encoder: ObservationEncoder,
    settings: LearnSettings,
    seed: int,
    report: Callable[[str], None] | None = None,
) -> tuple[float, float]:
    """Widen the range of returns seen until no probability overflows it.

    Short pilot runs of the default model tell where the probability is.
    """
    support = Support.fixed(*_range_of_returns(transitions, settings.gamma))
    bounds = reward_bounds(jnp.asarray(transitions.reward), settings.gamma)
    pilot = replace(settings, mode="default", sigma=1.0, max_iter=max(settings.max_iter // 5, 500))
    for _ in range(_MOST_PILOTS):
        ends = float(support.low), float(support.high)
        returns = learn(transitions, encoder, ends, pilot, seed).returns
        below, above = overflow(returns, transitions, settings.gamma, seed)
        wider = grown(support, below, above, bounds, NEGLIGIBLE_OVERFLOW, step=1.0)
        if wider.low == support.low and wider.high == support.high:
            break
        support = wider
        if report is not None:
            report(
                "returns go beyond the support: widened to "
                f"[{float(support.low):.4g}, {float(support.high):.4g}]"
            )
    return float(support.low), float(support.high)


def overflow(
    returns: LearnedReturns, transitions: Transitions, gamma: float, seed: int, n: int = 4000
) -> tuple[Array, Array]:
    """How much the support moves mean returns by cutting off backups, below and above.

    In shares of the support's width: what one backup loses, times the number of backups in a return.
    """
    pick = np.random.default_rng(seed).integers(0, len(transitions), n)
    batch = Transition(*(a[pick] for a in _as_data(transitions, gamma)))
    below, above = _mean_overflow(returns, batch)
    ends = max(float(np.mean(transitions.terminated)), 1 / len(transitions))
    horizon = 1 / max(1 - gamma, ends)
    return horizon * below, horizon * above


@eqx.filter_jit
def _mean_overflow(returns: LearnedReturns, batch: Transition) -> tuple[Array, Array]:
    model, normalisation = returns.model, returns.normalisation
    action = jnp.zeros((), jnp.int32)
    ahead = returns.outputs(batch.next_observation)

    def one(step: Transition, outputs: Array) -> tuple[Array, Array]:
        return model.overflow(normalisation, step, Bootstrap(returns.network, outputs, action))

    below, above = jax.vmap(one)(batch, ahead)
    return jnp.mean(below), jnp.mean(above)


def _as_data(transitions: Transitions, gamma: float) -> Transition:
    """As the models take them: one action, and a discount of 0 at an end."""
    return Transition(
        jnp.asarray(transitions.observation),
        jnp.zeros(len(transitions), jnp.int32),
        jnp.asarray(transitions.reward),
        jnp.asarray(transitions.next_observation),
        jnp.asarray(gamma * (1 - transitions.terminated), jnp.float32),
    )


def _range_of_returns(transitions: Transitions, gamma: float) -> tuple[float, float]:
    """Of the returns seen, with some room; of the rewards where rows are not episodes."""
    reward = transitions.reward
    low, high = min(0.0, float(reward.min())), max(0.0, float(reward.max()))
    if not np.all(transitions.ended):
        value, _ = partial_returns(transitions, gamma)
        margin = 0.05 * (value.max() - value.min())
        low, high = float(value.min() - margin), float(value.max() + margin)
    return (low, high) if high > low else (low - 1.0, high + 1.0)
