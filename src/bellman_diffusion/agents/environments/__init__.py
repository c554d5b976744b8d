"""Environments by id: jitted where gymnax or a transition table allows it, else stepped by the host."""

from typing import Any

import gymnasium as gym

from bellman_diffusion.agents.environments.base import EnvSpec, JaxEnvironment
from bellman_diffusion.agents.environments.gymnax_env import GymnaxEnvironment, gymnax_name
from bellman_diffusion.agents.environments.host import HostEnvironments, host_spec
from bellman_diffusion.agents.environments.table import TableEnvironment, table_spec
from bellman_diffusion.agents.environments.windy_cliff import WINDY_CLIFF
from bellman_diffusion.bellman.environments import make_env
from bellman_diffusion.bellman.tables import finite_mdp


def find_environment(env_id: str, options: dict[str, Any]) -> JaxEnvironment | EnvSpec:
    """A jitted environment, or the spec of one that the host steps."""
    if gymnax_name(env_id) is not None and not options:
        return GymnaxEnvironment.create(env_id)
    env = make_env(env_id, **options)
    try:
        # A table whose states are what is observed.
        if hasattr(env.unwrapped, "P") and isinstance(env.observation_space, gym.spaces.Discrete):
            mdp = finite_mdp(env)
            return TableEnvironment.create(mdp, table_spec(env, env_id, mdp, options))
        return host_spec(env, env_id, options)
    finally:
        env.close()


__all__ = ["WINDY_CLIFF", "EnvSpec", "HostEnvironments", "JaxEnvironment", "find_environment"]
