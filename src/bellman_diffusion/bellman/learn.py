"""Learn a return field from transitions: one-step updates, never a whole trajectory (Algorithm 3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bellman_diffusion.bellman.basis import GaussianBasis
from bellman_diffusion.bellman.losses import (
    Batch,
    algorithm_3_loss,
    cramer_loss,
    cross_entropy_loss,
)
from bellman_diffusion.bellman.observations import Encoder
from bellman_diffusion.bellman.projection import BasisProjection, CategoricalProjection
from bellman_diffusion.bellman.return_fields import (
    CategoricalField,
    CramerField,
    NetworkBasisField,
    PaperField,
    ReturnField,
)
from bellman_diffusion.bellman.target import BellmanTarget
from bellman_diffusion.bellman.transitions import Transitions
from bellman_diffusion.training import Progress, RunFolder, init_state, make_program, train
from bellman_diffusion.training.optimiser import Schedule

Mode = Literal["default", "paper", "c51"]
_FIELDS = {"default": CramerField, "paper": PaperField, "c51": CategoricalField}
_CHUNK_STEPS = 250
# A support that moves mean returns by less than this share of its width cuts off nothing that matters.
NEGLIGIBLE_CUT = 5e-3


@dataclass(frozen=True)
class LearnSettings:
    """How a return field is learned."""

    gamma: float = 0.99
    mode: Mode = "default"
    width: int = 64
    depth: int = 2
    max_iter: int = 10_000
    batch_size: int = 1024
    learning_rate: float = 2e-3
    target_memory: float = 50.0
    """Steps that the slow copy remembers: one Bellman update takes about as long."""
    epsilon: float = 0.1
    """The kernel's variance in Algorithm 3, in units of half the span squared."""


class Learned(NamedTuple):
    """The field and the last figures of its training."""

    field: ReturnField
    figures: dict[str, float]


def new_field(
    settings: LearnSettings, encoder: Encoder, basis: GaussianBasis, seed: int
) -> CramerField | CategoricalField | PaperField:
    """A field with a random network."""
    key = jax.random.key(seed)
    return _FIELDS[settings.mode].create(key, encoder, basis, settings.width, settings.depth)


def learn(
    transitions: Transitions,
    space: gym.Space,
    basis: GaussianBasis,
    settings: LearnSettings,
    seed: int,
    *,
    run: RunFolder | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Train the field of `settings.mode` on the transitions."""
    encoder = Encoder.for_space(space, transitions.observation)
    template = new_field(settings, encoder, basis, seed)
    loss_of = _loss(settings, basis, template)
    schedule = Schedule(
        settings.learning_rate, average_decay=1 - 1 / settings.target_memory, adam_b2=0.999
    )

    def loss(network, slow, key, data: Batch, n_rows):
        pick, rest = jax.random.split(key)
        index = jax.random.randint(pick, (settings.batch_size,), 0, n_rows)
        batch = Batch(*(a[index] for a in data))
        learned, target = (_with_network(template, n) for n in (network, slow))
        return loss_of(learned, target, rest, batch), {}

    program = make_program(template.network, loss, schedule, _CHUNK_STEPS)
    data = Batch(*(jnp.asarray(a, jnp.float32) for a in transitions[:4]))
    key = jax.random.fold_in(jax.random.key(seed), 1)
    state, figures = train(
        lambda state, step, n_steps: program(state, step, n_steps, key, data, len(transitions)),
        init_state(template.network, schedule),
        settings.max_iter,
        _CHUNK_STEPS,
        run=run,
        progress=progress,
        advice="Lower learning_rate, or use the default mode.",
    )
    network = eqx.combine(state.average, template.network)
    return Learned(_with_network(template, network), figures)


def find_support(
    transitions: Transitions,
    space: gym.Space,
    guess: tuple[float, float],
    n_functions: int,
    settings: LearnSettings,
    seed: int,
    report: Callable[[str], None] | None = None,
) -> tuple[float, float]:
    """Widen a guess of the range of returns until no mass stands at its edges.

    Short pilot runs of the default field tell where the mass is.
    """
    low, high = guess
    pilot = LearnSettings(gamma=settings.gamma, max_iter=max(settings.max_iter // 5, 500))
    for _ in range(12):
        basis = GaussianBasis.on_interval(low, high, n_functions)
        field = learn(transitions, space, basis, pilot, seed).field
        left, right = cut_off(field, transitions, settings.gamma, seed)
        if max(left, right) <= NEGLIGIBLE_CUT:
            break
        width = high - low
        low, high = low - width * (left > NEGLIGIBLE_CUT), high + width * (right > NEGLIGIBLE_CUT)
        if report is not None:
            report(f"returns go beyond the support: widened to [{low:.4g}, {high:.4g}]")
    return low, high


def cut_off(
    field: ReturnField, transitions: Transitions, gamma: float, seed: int, n: int = 4000
) -> tuple[float, float]:
    """How much the support moves mean returns by cutting off backups, left and right.

    In shares of the support's width: what one backup loses, times the number of backups in a return.
    """
    if not isinstance(field, NetworkBasisField):
        return 0.0, 0.0
    pick = np.random.default_rng(seed).integers(0, len(transitions), n)
    reward, following, terminated = (np.asarray(a)[pick] for a in transitions[1:4])
    laws = np.maximum(np.asarray(field.coefficients(jnp.asarray(following))), 0)
    centres = np.asarray(field.centres)
    places = reward[:, None] + gamma * (1 - terminated)[:, None] * centres
    ends = max(float(np.mean(transitions.terminated)), 1 / len(transitions))
    horizon = 1 / max(1 - gamma, ends)
    scale = horizon / (centres[-1] - centres[0])
    left = np.mean(np.sum(laws * np.maximum(centres[0] - places, 0), axis=1)) * scale
    right = np.mean(np.sum(laws * np.maximum(places - centres[-1], 0), axis=1)) * scale
    return float(left), float(right)


def _with_network(field: Any, network: Any) -> Any:
    return eqx.tree_at(lambda f: f.network, field, network)


def _loss(
    settings: LearnSettings, basis: GaussianBasis, template: Any
) -> Callable[[Any, Any, Array, Batch], Array]:
    if settings.mode == "paper":
        half = float(template.high - template.low) / 2
        epsilon = settings.epsilon * half**2
        return lambda field, slow, key, batch: algorithm_3_loss(
            field, slow, settings.gamma, basis.sigma, epsilon, key, batch
        )
    if settings.mode == "c51":
        target = BellmanTarget.create(CategoricalProjection(basis), settings.gamma)
        return lambda field, slow, _, batch: cross_entropy_loss(field, slow, target, batch)
    target = BellmanTarget.create(BasisProjection(basis), settings.gamma)
    return lambda field, slow, _, batch: cramer_loss(field, slow, target, batch)
