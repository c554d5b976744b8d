"""From a configuration to its learner and environment."""

from bellman_diffusion.agents.algorithms import make_algorithm
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.environments import EnvSpec, JaxEnvironment, find_environment
from bellman_diffusion.agents.learner import Learner
from bellman_diffusion.agents.networks import Reader
from bellman_diffusion.errors import InvalidInputError


def make_learner(config: AgentConfig) -> tuple[Learner, JaxEnvironment | EnvSpec]:
    """The learner of a configuration, and its environment."""
    found = find_environment(config.env_id, config.env_options)
    spec = found if isinstance(found, EnvSpec) else found.spec
    if config.gamma == 1 and spec.time_limit is None:
        raise InvalidInputError(
            f"gamma is 1 and {config.env_id} has no time limit: returns may be endless. Use gamma < 1, "
            "or register the environment with max_episode_steps."
        )
    reader = Reader.for_space(spec.observation_space, config.env_id)
    return Learner(config, make_algorithm(config, reader, spec.n_actions), reader), found
