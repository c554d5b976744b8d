"""Return models by name, one file each; planner and agents choose from these."""

from collections.abc import Callable
from dataclasses import dataclass

import jax

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.models.base import (
    Bootstrap,
    HeadModel,
    LearnedReturns,
    Normalisation,
    ReturnModel,
    Transition,
    batched_outputs,
)
from bellman_diffusion.returns.models.categorical import Categorical
from bellman_diffusion.returns.models.cells import CellModel
from bellman_diffusion.returns.models.cramer import CramerBasis
from bellman_diffusion.returns.models.expectation import Expectation
from bellman_diffusion.returns.models.paper import PaperNetworks
from bellman_diffusion.returns.models.quantile import QuantileRegression
from bellman_diffusion.returns.models.smoothed import SmoothedCategorical
from bellman_diffusion.returns.networks import Activation
from bellman_diffusion.returns.observations import ObservationEncoder


@dataclass(frozen=True)
class ModelSettings:
    """The size of a return model."""

    n_outputs: int = 31
    """Basis functions, atoms or quantiles of each action's return."""
    sigma: float = 1.0
    """The smoothing, in spacings of the nodes, for models that have one."""
    hidden: tuple[int, ...] = (64, 64)
    activation: Activation = jax.nn.relu
    n_grid: int | None = None
    """Points at which the paper's networks are evaluated."""
    atom_width: float = 0.25
    """The smoothing of reported atoms, in spacings: it plays no part in training."""
    shares: bool = False
    """Whether quantiles and means are learned in shares of the support, not in units of the return."""


ModelMaker = Callable[[ObservationEncoder, int, ModelSettings], ReturnModel]


def _sized(kind: type, **settings: str) -> ModelMaker:
    """A head model; `settings` are fields of its own with their names in `ModelSettings`."""

    def make(encoder: ObservationEncoder, n_actions: int, s: ModelSettings) -> ReturnModel:
        more = {name: getattr(s, setting) for name, setting in settings.items()}
        return kind(
            encoder=encoder,
            n_actions=n_actions,
            n_outputs=s.n_outputs,
            hidden=s.hidden,
            activation=s.activation,
            **more,
        )

    return make


_MODELS: dict[str, ModelMaker] = {
    "smoothed": _sized(SmoothedCategorical, sigma="sigma"),
    "cells": _sized(CellModel, sigma="sigma"),
    "cramer": _sized(CramerBasis, sigma="sigma"),
    "categorical": _sized(Categorical, sigma="atom_width"),
    "quantile": _sized(QuantileRegression, shares="shares"),
    "expectation": lambda e, n, s: Expectation(
        encoder=e,
        n_actions=n,
        n_outputs=1,
        hidden=s.hidden,
        activation=s.activation,
        shares=s.shares,
    ),
    "paper": lambda e, n, s: PaperNetworks(
        encoder=e,
        n_actions=n,
        n_outputs=s.n_outputs,
        hidden=s.hidden,
        sigma=s.sigma,
        activation=s.activation,
        n_grid=s.n_grid,
    ),
}


def register_model(name: str, maker: ModelMaker) -> None:
    """Make a return model known: `maker(encoder, n_actions, settings)` builds it."""
    _MODELS[name] = maker


def model_names() -> list[str]:
    """All that are known."""
    return list(_MODELS)


def make_model(
    name: str, encoder: ObservationEncoder, n_actions: int, settings: ModelSettings
) -> ReturnModel:
    """The return model with this name."""
    if name not in _MODELS:
        raise InvalidInputError(f"no return model {name!r}: choose {', '.join(model_names())}")
    return _MODELS[name](encoder, n_actions, settings)


__all__ = [
    "Bootstrap",
    "HeadModel",
    "LearnedReturns",
    "ModelSettings",
    "Normalisation",
    "ReturnModel",
    "Transition",
    "batched_outputs",
    "make_model",
    "model_names",
    "register_model",
]
