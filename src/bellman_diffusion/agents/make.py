"""From a configuration to its learner and environment."""

from functools import lru_cache

from bellman_diffusion.agents.algorithms import find_algorithm
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.jax_learner import JaxLearner
from bellman_diffusion.agents.learner import Learner
from bellman_diffusion.environments import Environment
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.models import ModelSettings, make_model
from bellman_diffusion.returns.observations import ObservationEncoder


@lru_cache(maxsize=16)
def make_learner(config: AgentConfig) -> tuple[Learner, Environment]:
    """The learner of a configuration and its environment, built once."""
    algorithm = find_algorithm(config.algo)
    environment = Environment(config.env_id, config.env_options)
    spec = environment.spec
    if config.gamma == 1 and spec.time_limit is None:
        raise InvalidInputError(
            f"gamma is 1 and {config.env_id} has no time limit: returns may be endless. Use gamma < 1, "
            "or register the environment with max_episode_steps."
        )
    encoder = ObservationEncoder.for_space(spec.observation_space, config.env_id)
    sizes = ModelSettings(config.n_outputs, config.smoothing, config.hidden)
    model = make_model(algorithm.model, encoder, spec.n_actions, sizes)
    return Learner(config, model, encoder), environment


def make_jax_learner(config: AgentConfig) -> JaxLearner:
    """The same for an environment that runs inside the jitted program; an error for others."""
    learner, environment = make_learner(config)
    if environment.jitted is None:
        raise InvalidInputError(
            f"{config.env_id} is stepped by the host, so its training is no pure function: "
            "use train_agents"
        )
    return JaxLearner(learner, environment.jitted)
