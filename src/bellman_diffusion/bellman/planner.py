"""A saved planner: what was learned about a policy's returns, and where the laws come from."""

import os
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import jax.numpy as jnp
import numpy as np

from bellman_diffusion.bellman.basis import GaussianBasis
from bellman_diffusion.bellman.distribution import ReturnDistribution
from bellman_diffusion.bellman.environments import make_env
from bellman_diffusion.bellman.learn import LearnSettings, new_field
from bellman_diffusion.bellman.observations import Encoder, row_size, to_row
from bellman_diffusion.bellman.return_fields import ReturnField, TableField
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.training import read_checkpoint, write_checkpoint

PLANNER_FILE = "planner.bellman"
_KIND = "planner"
Kind = Literal["table", "default", "paper", "c51"]


class Planner:
    """The laws of a policy's returns from any observation of one environment."""

    def __init__(self, field: ReturnField, space: gym.Space, meta: dict[str, Any]) -> None:
        self.field = field
        self.space = space
        self.meta = meta

    def distribution(self, observations: Any) -> ReturnDistribution:
        """The law of the return from a list of observations, one for each."""
        try:
            rows = np.stack([to_row(self.space, o) for o in observations])
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"give a list of observations of {self.space}: {error}"
            ) from error
        if rows.shape[1] != row_size(self.space):
            raise InvalidInputError(f"these are not observations of {self.space}")
        return self.field.distribution(jnp.asarray(rows))

    def all_states(self) -> ReturnDistribution:
        """The laws of every state of a finite environment, by index."""
        n = self.meta["n_states"]
        if n is None:
            raise InvalidInputError("the environment has no list of states: use distribution()")
        return self.field.distribution(jnp.arange(n, dtype=jnp.float32)[:, None])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, atomically."""
        write_checkpoint(Path(path), _KIND, self.field, self.meta)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Planner":
        """Read a saved planner from its file or its run's folder.

        Its environment is made again to know its observations.
        """
        file = Path(path) / PLANNER_FILE if Path(path).is_dir() else Path(path)
        field, meta = read_checkpoint(file, _KIND, _like)
        space = make_env(meta["env_id"], **meta["env_options"]).observation_space
        return cls(field, space, meta)


def describe(
    *,
    kind: Kind,
    env_id: str,
    env_options: dict[str, Any],
    policy: str,
    epsilon: float,
    basis: GaussianBasis,
    settings: LearnSettings,
    n_states: int | None,
    encoder: Encoder | None,
    figures: dict[str, Any],
) -> dict[str, Any]:
    """All that `load` needs to build the same field, and what the user wants to know of it."""
    return {
        "kind": kind,
        "env_id": env_id,
        "env_options": env_options,
        "policy": policy,
        "epsilon": epsilon,
        "gamma": settings.gamma,
        "support": [float(basis.low[0]), float(basis.high[0])],
        "functions": len(basis.centres),
        "sigma": basis.sigma,
        "width": settings.width,
        "depth": settings.depth,
        "n_states": n_states,
        "n_features": None if encoder is None else int(encoder.shift.shape[0]),
        "n_discrete": None if encoder is None else encoder.n_discrete,
        "figures": figures,
    }


def _like(meta: dict[str, Any]) -> ReturnField:
    low, high = meta["support"]
    basis = GaussianBasis.on_interval(low, high, meta["functions"], meta["sigma"])
    if meta["kind"] == "table":
        k = meta["functions"]
        return TableField(jnp.zeros((meta["n_states"], k)), jnp.zeros(k), jnp.zeros(()))
    settings = LearnSettings(mode=meta["kind"], width=meta["width"], depth=meta["depth"])
    zeros = jnp.zeros(meta["n_features"])
    encoder = Encoder(zeros, zeros, meta["n_discrete"])
    return new_field(settings, encoder, basis, 0)
