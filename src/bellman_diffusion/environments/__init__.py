"""Environments by id: jitted where gymnax or a transition table allows it, else stepped by the host."""

from typing import Any

import gymnasium as gym

from bellman_diffusion.environments.base import EnvSpec, JaxEnvironment
from bellman_diffusion.environments.gymnax_env import GymnaxEnvironment, gymnax_name
from bellman_diffusion.environments.host import HostEnvironments, host_spec
from bellman_diffusion.environments.make import make_env
from bellman_diffusion.environments.model_files import (
    is_model_file,
    model_from_matrices,
    read_model,
    save_model,
)
from bellman_diffusion.environments.table import TableEnvironment
from bellman_diffusion.environments.transition_tables import find_mdp, finite_mdp
from bellman_diffusion.environments.windy_cliff import WINDY_CLIFF


class Environment:
    """An environment by its id: made once to learn its spec, and jitted where that is possible."""

    def __init__(self, env_id: str, options: dict[str, Any]) -> None:
        self.jitted: JaxEnvironment | None = None
        """Its pure functions, or None where the host steps it."""
        if gymnax_name(env_id) is not None and not options:
            self.jitted = GymnaxEnvironment.create(env_id)
            self.spec = self.jitted.spec
            return
        env = make_env(env_id, **options)
        try:
            self.spec = host_spec(env, env_id, options)
            # A table whose states are what is observed.
            if hasattr(env.unwrapped, "P") and isinstance(
                env.observation_space, gym.spaces.Discrete
            ):
                self.jitted = TableEnvironment.create(finite_mdp(env), self.spec)
        finally:
            env.close()


__all__ = [
    "WINDY_CLIFF",
    "EnvSpec",
    "Environment",
    "HostEnvironments",
    "JaxEnvironment",
    "find_mdp",
    "finite_mdp",
    "is_model_file",
    "make_env",
    "model_from_matrices",
    "read_model",
    "save_model",
]
