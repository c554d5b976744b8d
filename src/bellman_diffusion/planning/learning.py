"""Learn return distributions from transitions by one-step updates (Algorithm 3)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from bellman_diffusion.fields.networks import silu
from bellman_diffusion.planning.targets import TrainingRows, Windows, draw_windows
from bellman_diffusion.planning.transitions import Discount, Transitions
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
from bellman_diffusion.returns.models.particles import Particles
from bellman_diffusion.returns.observations import ObservationEncoder, ObservationScaler
from bellman_diffusion.returns.support import Support
from bellman_diffusion.training import Progress, RunFolder, init_state, make_program, train
from bellman_diffusion.training.optimiser import Schedule

# The return model of each mode; any other registered model is known by its own name.
MODES = {"default": "cells", "paper": "paper", "c51": "categorical"}
# The ends of a range of returns: numbers, or arrays of a number for each component.
Range = tuple[Any, Any]
_CHUNK_STEPS = 250
_PAPER_GRID = 400


@dataclass(frozen=True)
class LearnSettings:
    """How return distributions are learned."""

    gamma: Discount = 0.99
    mode: str = "default"
    n_basis: int = 101
    """Numbers that a network gives for each state: three for a cell, one for an atom or a function. Of
    a vector return it is the number of particles."""
    sigma: float = 1.0
    """The smoothing, in spacings of the nodes."""
    trace: float = 0.98
    """λ: targets are mixtures of n-step backups along an episode; 0 where rows are not episodes."""
    width: int = 64
    depth: int = 2
    max_iter: int = 10_000
    batch_size: int = 1024
    learning_rate: float = 2e-3
    n_components: int = 0
    """Of a vector return; 0 where rewards are numbers."""
    target_memory: float = 50.0
    """Steps that the target network averages over: one Bellman update takes about as long."""


class Learned(NamedTuple):
    """The trained model and the last loss of its training."""

    returns: LearnedReturns
    loss: float


def planner_model(settings: LearnSettings, encoder: ObservationEncoder) -> ReturnModel:
    """The return model of a mode; a planner evaluates one policy, so it has one action."""
    hidden = (settings.width,) * settings.depth
    if settings.n_components:
        return Particles(
            encoder=encoder, n_actions=1, n_outputs=settings.n_basis, hidden=hidden, activation=silu,
            dim=settings.n_components,
        )  # fmt: skip
    sizes = ModelSettings(
        n_outputs=settings.n_basis,
        sigma=settings.sigma,
        atom_width=settings.sigma,
        hidden=hidden,
        activation=silu,
        n_grid=_PAPER_GRID,
        shares=True,
    )
    return make_model(MODES.get(settings.mode, settings.mode), encoder, 1, sizes)


def learn(
    transitions: Transitions,
    encoder: ObservationEncoder,
    support: Range,
    settings: LearnSettings,
    seed: int,
    *,
    starts: Int[np.ndarray, " episodes"] | None = None,
    run: RunFolder | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Train the model of `settings.mode` on the transitions.

    `starts` are the first rows of episodes, where `ended` also marks rows that targets are cut at.
    """
    model = planner_model(settings, encoder)
    scaler = ObservationScaler.identity(encoder).fitted(jnp.asarray(transitions.observation))
    normalisation = Normalisation(scaler, Support.fixed(*support))
    network = model.network(jax.random.key(seed))
    schedule = Schedule(
        settings.learning_rate, ema_decay=1 - 1 / settings.target_memory, adam_b2=0.999
    )
    n = settings.batch_size
    rows = TrainingRows.of(transitions, settings.gamma, starts)
    # The states of a small table are fewer than a batch's rows: each is computed once. Where distinct
    # transitions are too, they are counted, and every step learns from all of them, free of noise.
    few = isinstance(model, HeadModel) and 0 < encoder.n_discrete <= n
    few = few and not settings.n_components
    counted = _counted(transitions, settings.gamma, n) if few else None
    data = rows if counted is None else counted

    def loss(network, target_network, key, data: Any, n_rows):
        del n_rows
        pick, rest = jax.random.split(key)
        if isinstance(data, TrainingRows):
            windows = draw_windows(pick, data, n, settings.gamma, settings.trace)
            batch, weight = _batch(data, windows), jnp.full(n, 1 / n)
        else:
            batch, weight = data
        if few:
            return _loss_of_states(model, network, target_network, normalisation, batch, weight), {}
        ahead = batched_outputs(model, target_network, normalisation, batch.next_observation)

        def one(step, next_outputs, key):
            bootstrap = Bootstrap(target_network, next_outputs, step.action)
            return model.loss(network, normalisation, step, bootstrap, key)

        return jnp.mean(jax.vmap(one)(batch, ahead, jax.random.split(rest, n))), {}

    program = make_program(network, loss, schedule, _CHUNK_STEPS)
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
    model: Any,
    network: Any,
    target_network: Any,
    normalisation: Normalisation,
    batch: Transition,
    weight: Array,
) -> Array:
    """The weighted loss of a batch, from the outputs of every state of a table."""
    states = jnp.arange(normalisation.scaler.encoder.n_discrete, dtype=jnp.float32)[:, None]
    raw = jax.vmap(lambda o: model.raw(network, normalisation, o)[0])(states)
    outputs = batched_outputs(model, target_network, normalisation, states)[:, 0]
    now, later = (o[:, 0].astype(jnp.int32) for o in (batch.observation, batch.next_observation))

    def one(raw, next_outputs, reward, discount):
        backup = BellmanBackup(reward, discount)
        return model.discrepancy(raw, next_outputs, backup, normalisation.support)

    losses = jax.vmap(one)(raw[now], outputs[later], batch.reward, batch.discount)
    return jnp.sum(weight * losses)


def _batch(rows: TrainingRows, windows: Windows) -> Transition:
    """A planner's models have one action."""
    return Transition(
        rows.observation[windows.first],
        jnp.zeros(windows.first.shape, jnp.int32),
        windows.reward,
        rows.next_observation[windows.last],
        windows.discount,
    )


def _counted(
    transitions: Transitions, gamma: Discount, most: int
) -> tuple[Transition, Array] | None:
    """Distinct transitions between the states of a table and the share of each; None beyond `most`."""
    distinct, counts = transitions.distinct()
    if len(distinct) > most:
        return None
    step = Transition(
        jnp.asarray(distinct.observation),
        jnp.zeros(len(distinct), jnp.int32),
        jnp.asarray(distinct.reward),
        jnp.asarray(distinct.next_observation),
        jnp.asarray(gamma * (1 - distinct.terminated), jnp.float32),
    )
    return step, jnp.asarray(counts / counts.sum(), jnp.float32)
